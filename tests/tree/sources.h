// The tree's own sources as the tests of the tree read them.
#pragma once

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "support/paths.h"

namespace trifold::test {

inline std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Those that the headers in kernels/ops give.
inline std::set<std::string> op_names() {
  static const std::regex kName("string_view name\\(\\) const override \\{ return \"([a-z0-9_.]+)\"; \\}");
  std::set<std::string> names;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(std::filesystem::path(source_dir()) / "src/kernels/ops")) {
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator found(text.begin(), text.end(), kName), end; found != end; ++found)
      names.insert((*found)[1]);
  }
  return names;
}

}  // namespace trifold::test
