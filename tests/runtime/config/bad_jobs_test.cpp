// Every kind of mistake in a job and the exact sentence it gets: the table is bad_jobs.txt beside this file.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "layers/layer.h"
#include "runtime/config/job.h"
#include "support/paths.h"

namespace trifold {
namespace {

struct BadJob {
  std::string name;
  std::string text;
  std::string error;
};

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// 'a', 'b' or 'c'
std::string alternatives(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.end() - 1);
  return fmt::format("'{}' or '{}'", fmt::join(first, "', '"), names.back());
}

// The table has placeholders for the names of what registers itself, so that a new one need not be added there.
std::string filled_in(std::string text) {
  std::vector<std::string> layers;
  for (const auto& [name, type] : layer_types()) layers.push_back(name);
  const std::vector<std::pair<std::string_view, std::string>> places = {
      {"<every layer>", listed(layers)},
      {"<every source>", listed(data_source_names())},
      {"<one of the sources>", alternatives(data_source_names())}};
  for (const auto& [place, names] : places)
    if (const std::size_t at = text.find(place); at != std::string::npos) text.replace(at, place.size(), names);
  return text;
}

// Rows of "== name", the job's lines, "--", the error's line.
std::vector<BadJob> read_table() {
  std::ifstream file(test::source_dir() / "tests/runtime/config/bad_jobs.txt");
  std::vector<BadJob> rows;
  bool in_error = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) {
      rows.push_back({.name = line.substr(3), .text = {}, .error = {}});
      in_error = false;
    } else if (line == "--") {
      in_error = true;
    } else if (!rows.empty() && in_error) {
      rows.back().error += line;
    } else if (!rows.empty()) {
      rows.back().text += (rows.back().text.empty() ? "" : "\n") + line;
    }
  }
  return rows;
}

TEST(BadJobs, GetTheirSentence) {
  const std::vector<BadJob> rows = read_table();
  ASSERT_GE(rows.size(), 80u);
  for (const BadJob& row : rows) {
    SCOPED_TRACE(row.name);
    try {
      parse_job(row.text, "job.json");
      ADD_FAILURE() << "was accepted:\n" << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), filled_in(row.error));
      EXPECT_EQ(error.fault(), Fault::input);
      EXPECT_EQ(error.exit_code(), 2);
    }
  }
}

TEST(BadJobs, AFileThatIsNotThereIsNamed) {
  try {
    load_job("no/such/job.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no/such/job.json: cannot be opened; does the file exist?");
  }
}

TEST(BadJobs, DeepNestingIsRefusedAndDoesNotCrash) {
  try {
    parse_job(std::string(100'000, '['), "job.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nested more than 64 deep"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trifold
