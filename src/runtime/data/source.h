// Where a job's data comes from. Every source is one file of this folder, which registers it under its JSON name with
// its fields, its checks and how to open it; nothing else needs to know of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "runtime/data/dataset.h"

namespace trifold {

// What a job asks for.
struct DataSource {
  std::string type{};    // the name of a DataSourceType
  FieldValues values{};  // of its fields; paths are absolute
  ImageShape input{};    // what the model reads; zeros: any shape
  int classes = 0;       // of the model; 0: as many as the source has, labels unchecked

  bool operator==(const DataSource&) const = default;
};

// A source's fields do not fit the model. The caller adds the place in the file.
struct SourceError {
  std::string message;
  std::string field = {};  // that is to blame; empty: the source as a whole
};

struct DataSourceType {
  std::string name;
  std::string help;  // one line
  int position = 0;  // in lists of sources, which go by this and then by name
  Fields fields;
  std::map<std::string, Field> second_forms = {};  // a field of that name may also be this; integers are kept as texts
  std::vector<std::string> paths = {};  // text fields that are paths, relative to the file they are written in
  std::string time_field = {};          // that says when samples were taken, if it is given; empty: they have no times
  std::string only_on_host = {};        // why no device can augment and normalise its samples; empty: one can

  // Checks the fields against the model, and sets those whose default depends on it. Throws SourceError.
  void (*complete)(DataSource& source) = nullptr;
  std::unique_ptr<Dataset> (*open)(const DataSource& source, Split split) = nullptr;
};

// At namespace scope in the source's file.
struct RegisterSource {
  explicit RegisterSource(DataSourceType type);
};

// Limits of fields.
inline constexpr double kMostDrawnSamples = 1e8;
inline constexpr double kLargestExtent = 65536;  // pixels per side, columns, features

Field path_field(const char* help);  // "path"

std::vector<const DataSourceType*> data_source_types();  // in the order of lists
std::vector<std::string> data_source_names();
const DataSourceType& data_source_type(std::string_view name);  // an input error lists the names

// Sets the fields that are not given and checks all against the model. Throws SourceError.
void complete(DataSource& source);

// Opens a split. Images that do not have the shape of the model's input, and labels beyond its classes, are refused.
std::unique_ptr<Dataset> open_dataset(const DataSource& source, Split split);

}  // namespace trifold
