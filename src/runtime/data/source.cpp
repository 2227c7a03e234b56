#include "runtime/data/source.h"

#include <algorithm>

#include "core/error.h"
#include "runtime/data/cifar.h"
#include "runtime/data/idx.h"

namespace trifold {

namespace {

using Opener = std::unique_ptr<Dataset> (*)(const DataSource&, Split);

struct SourceType {
  const char* name;
  Opener open;
};

constexpr SourceType kTypes[] = {
    {"cifar10", [](const DataSource& s, Split split) { return open_cifar(s.path, split, CifarKind::cifar10); }},
    {"cifar100", [](const DataSource& s, Split split) { return open_cifar(s.path, split, CifarKind::cifar100); }},
    {"csv", [](const DataSource& s, Split split) { return open_csv(s.path, split, s.input, s.csv); }},
    {"idx", [](const DataSource& s, Split split) { return open_idx(s.path, split); }},
    {"image_folder",
     [](const DataSource& s, Split split) { return open_image_folder(s.path, split, s.input, s.image_folder); }},
    {"synthetic",
     [](const DataSource& s, Split split) { return open_synthetic(s.input, s.classes, s.seed, split, s.synthetic); }},
    {"synthetic_rows",
     [](const DataSource& s, Split split) {
       return open_synthetic_rows(s.input, s.classes, s.seed, split, s.synthetic_rows);
     }},
};

}  // namespace

const std::vector<std::string>& data_source_types() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const SourceType& type : kTypes) list.emplace_back(type.name);
    return list;
  }();
  return names;
}

std::unique_ptr<Dataset> open_dataset(const DataSource& source, Split split) {
  const auto* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const SourceType& t) { return source.type == t.name; });
  if (type == std::end(kTypes)) {
    fail_input("unknown data.type \"{}\"; the types are {}", source.type, fmt::join(data_source_types(), ", "));
  }
  std::unique_ptr<Dataset> dataset = type->open(source, split);
  if (source.input != ImageShape{} && dataset->image_shape() != source.input) {
    fail_input("{}: its images are {}, but the model's input is {}; change model.input", dataset->origin(0),
               to_string(dataset->image_shape()), to_string(source.input));
  }
  if (source.classes > 0) check_labels(*dataset, source.classes);
  return dataset;
}

}  // namespace trifold
