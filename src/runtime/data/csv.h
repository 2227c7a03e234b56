// Tables of numbers as text, one sample a row: features, and a class label or float targets. Fields are separated by
// commas, semicolons or tabs (whichever the first line has); a first line that holds a word is a header. One column may
// hold times.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

struct CsvOptions {
  std::string label_column{};  // a name of the header, or an index from 0 (negative: from the end); empty: the last
  std::string time_column{};   // likewise: timestamps, which are no features; empty: none
  int targets = 0;             // > 0: no labels; the last `targets` columns are float targets
  std::filesystem::path test_path{};  // where data.path is one file: the file of the test split
};

struct CsvTable {
  int features = 0;                 // columns that are neither label, target nor time
  std::vector<float> values;        // [rows, features]
  std::vector<int> labels;          // [rows], or empty where there are targets
  std::vector<float> targets;       // [rows, options.targets]
  std::vector<double> times;        // [rows], or empty where there is no time column
  std::vector<std::int64_t> lines;  // [rows], where each row stands in the text, from 1
};

CsvTable parse_csv(std::string_view text, std::string_view name, const CsvOptions& options);

// A number as it is, or seconds since 1970 of an ISO date with or without a time: 2024-02-29, 2024-02-29T23:59:30.5Z,
// 2024-02-29 23:59. Zones other than Z are refused.
std::optional<double> parse_time(std::string_view text);

// Opens <path>/train.csv or <path>/test.csv, or `path` itself (train) and options.test_path (test). The features fill
// `shape` row by row; a shape of zeros becomes [features, 1, 1].
std::unique_ptr<Dataset> open_csv(const std::filesystem::path& path, Split split, const ImageShape& shape,
                                  const CsvOptions& options);

}  // namespace trifold
