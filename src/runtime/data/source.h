// Where a job's data comes from, and how it is opened. The configuration fills a DataSource in; which sources exist is
// known here alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/csv.h"
#include "runtime/data/dataset.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/synthetic.h"
#include "runtime/data/synthetic_rows.h"

namespace trifold {

struct DataSource {
  std::string type{};            // one of data_source_types()
  std::filesystem::path path{};  // a folder (csv: or a file); not used by those that are drawn
  ImageShape input{};            // what the model reads
  int classes = 0;               // of the model; 0: as many as the source has, labels unchecked
  std::uint64_t seed = 0;        // for "synthetic" and "synthetic_rows"
  ImageFolderOptions image_folder{};
  CsvOptions csv{};
  SyntheticOptions synthetic{};
  SyntheticRowsOptions synthetic_rows{};
};

const std::vector<std::string>& data_source_types();

// Opens a split. Images that do not have the shape of the model's input (zeros: any shape), and labels beyond its
// classes, are refused.
std::unique_ptr<Dataset> open_dataset(const DataSource& source, Split split);

}  // namespace trifold
