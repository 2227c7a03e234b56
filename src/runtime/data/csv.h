// Tables of numbers as text, one sample a row: features, and a class label or float targets. Fields are separated by
// commas, semicolons or tabs (whichever the first line has); a first line that holds a word is a header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

struct CsvOptions {
  std::string label_column{};  // a name of the header, or an index from 0 (negative: from the end); empty: the last
  int targets = 0;             // > 0: no labels; the last `targets` columns are float targets
  std::filesystem::path test_path{};  // where data.path is one file: the file of the test split
};

struct CsvTable {
  int features = 0;                 // columns that are neither label nor target
  std::vector<float> values;        // [rows, features]
  std::vector<int> labels;          // [rows], or empty where there are targets
  std::vector<float> targets;       // [rows, options.targets]
  std::vector<std::int64_t> lines;  // [rows], where each row stands in the text, from 1
};

CsvTable parse_csv(std::string_view text, std::string_view name, const CsvOptions& options);

// Opens <path>/train.csv or <path>/test.csv, or `path` itself (train) and options.test_path (test). The features fill
// `shape` row by row; a shape of zeros becomes [features, 1, 1].
std::unique_ptr<Dataset> open_csv(const std::filesystem::path& path, Split split, const ImageShape& shape,
                                  const CsvOptions& options);

}  // namespace trifold
