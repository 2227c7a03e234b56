#include "runtime/data/source.h"

#include <algorithm>

#include "core/error.h"

namespace trifold {

namespace {

std::map<std::string, DataSourceType, std::less<>>& source_registry() {
  static std::map<std::string, DataSourceType, std::less<>> types;
  return types;
}

}  // namespace

RegisterSource::RegisterSource(DataSourceType type) {
  const std::string name = type.name;
  const bool added = source_registry().emplace(name, std::move(type)).second;
  TRIFOLD_CHECK(added, "two data sources are named '{}'", name);
}

Field path_field(const char* help) {
  return {.name = "path", .kind = FieldKind::text, .help = help};
}

std::vector<const DataSourceType*> data_source_types() {
  std::vector<const DataSourceType*> types;
  for (const auto& [name, type] : source_registry()) types.push_back(&type);
  std::ranges::stable_sort(types, {}, &DataSourceType::position);
  return types;
}

std::vector<std::string> data_source_names() {
  std::vector<std::string> names;
  for (const DataSourceType* type : data_source_types()) names.push_back(type->name);
  return names;
}

const DataSourceType& data_source_type(std::string_view name) {
  const auto found = source_registry().find(name);
  if (found == source_registry().end())
    fail_input("unknown data.type \"{}\"; the types are {}", name, fmt::join(data_source_names(), ", "));
  return found->second;
}

void complete(DataSource& source) {
  const DataSourceType& type = data_source_type(source.type);
  const FieldValues defaults = defaults_of(type.fields);
  for (const auto& [name, value] : defaults.all())
    if (!source.values.has(name)) source.values.set(name, value);
  if (type.complete != nullptr) type.complete(source);
}

std::unique_ptr<Dataset> open_dataset(const DataSource& source, Split split) {
  std::unique_ptr<Dataset> dataset = data_source_type(source.type).open(source, split);
  if (source.input != ImageShape{} && dataset->image_shape() != source.input) {
    fail_input("{}: its images are {}, but the model's input is {}; change model.input", dataset->origin(0),
               to_string(dataset->image_shape()), to_string(source.input));
  }
  if (source.classes > 0) check_labels(*dataset, source.classes);
  return dataset;
}

}  // namespace trifold
