// An op states its traits; nothing in src/ compares its name. The names are those that the headers in kernels/ops give.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/paths.h"
#include "tree/sources.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

// The comparison with an op's name, or with what the names of a family begin with; "" where there is none. A `type` is
// a layer's.
std::string comparison_in(const std::string& line, const std::set<std::string>& names) {
  static const std::regex kCall(R"(op(\(\))?(\.|->)name\(\) *(==|!=|\.(starts_with|ends_with|find|contains)\())");
  static const std::regex kLiteral(R"re((\w*) *(==|!=|\.starts_with\(|\.ends_with\() *"([a-z0-9_.]+)")re");
  // Few lines get as far as the expressions, which are slow.
  constexpr std::array kParts = {"==", "!=", "starts_with", "ends_with", "name()"};
  if (std::ranges::none_of(kParts, [&](const char* part) { return line.find(part) != std::string::npos; })) return "";
  std::smatch found;
  if (std::regex_search(line, found, kCall)) return found[0];
  if (line.find('"') == std::string::npos) return "";
  if (!std::regex_search(line, found, kLiteral) || found[1] == "type") return "";
  const std::string literal = found[3];
  if (!found[2].str().ends_with('(')) return names.contains(literal) ? found[0].str() : "";
  const bool family = std::ranges::any_of(names, [&](const std::string& name) {
    return literal.size() > 2 && (name.starts_with(literal) || name.ends_with(literal));
  });
  return family ? found[0].str() : "";
}

TEST(OpNames, AreNotCompared) {
  const std::set<std::string> names = op_names();
  ASSERT_GT(names.size(), 40U);
  const fs::path root = fs::path(source_dir()) / "src";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    static const std::set<std::string> kSources = {".h", ".cpp", ".cu", ".cuh"};
    if (!entry.is_regular_file() || !kSources.contains(entry.path().extension())) continue;
    std::ifstream file(entry.path());
    std::string line;
    for (int number = 1; std::getline(file, line); ++number)
      EXPECT_EQ(comparison_in(line, names), "")
          << fmt::format("src/{}:{}: ask the op (kernels/op.h) instead of comparing its name",
                         fs::relative(entry.path(), root).generic_string(), number);
  }
}

TEST(OpNames, ComparisonsAreFound) {
  const std::set<std::string> names = {"conv2d.forward", "cast"};
  for (const char* line : {"if (name == \"cast\")", "name.starts_with(\"conv2d.\")", "name.starts_with(\"conv2d\")",
                           "if (node.op->name() == Send{}.name())", "request.op.name().starts_with(prefix)"})
    EXPECT_NE(comparison_in(line, names), "") << line;
  for (const char* line : {"if (layer.type == \"cast\")", "if (name == \"conv2d\")",
                           "factories_.find(request.op.name())", "return \"cast\";"})
    EXPECT_EQ(comparison_in(line, names), "") << line;
}

}  // namespace
}  // namespace trifold::test
