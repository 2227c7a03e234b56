#include "runtime/config/model_section.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "runtime/config/expand_blocks.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/source_path.h"
#include "runtime/config/validate.h"

namespace trifold {
namespace {

constexpr double kMostExtent = 65536;
constexpr double kMostClasses = 1'000'000;
constexpr std::int64_t kMostOfLayer = std::int64_t{1} << 20;  // channels, features, a kernel's side

Shape read_input(const JsonNode& model) {
  const JsonNode* input = model.find("input");
  if (input == nullptr) fail_at(model, "a model needs 'input': the shape [channels, height, width] of its images");
  const auto extents = std::get<std::vector<double>>(read_field(*input, input_field()));
  if (extents.size() != 3) fail_at(*input, "expected [channels, height, width], found a list of {}", extents.size());
  Shape shape;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] != std::floor(extents[i])) fail_at(input->items[i], "expected an integer, found {}", extents[i]);
    shape.push_back(static_cast<std::int64_t>(extents[i]));
  }
  return shape;
}

std::int64_t read_classes(const JsonNode& model) {
  const JsonNode* classes = model.find("classes");
  if (classes == nullptr) fail_at(model, "a model needs 'classes': {}", classes_field().help);
  return std::get<std::int64_t>(read_field(*classes, classes_field()));
}

const LayerType& type_of(const JsonNode& entry) {
  const JsonNode& name = *entry.find("type");
  const LayerType* type = find_layer_type(name.text);
  if (type != nullptr) return *type;
  std::vector<std::string> names;
  for (const auto& [known, unused] : layer_types()) names.push_back(known);
  fail_at(name, "unknown layer type '{}'{} (known: {})", name.text, did_you_mean(name.text, names), comma_list(names));
}

// Shape rules multiply these, and must not overflow before they can say that something does not fit.
void check_sizes(const JsonNode& entry, const FieldValues& values) {
  for (const auto& [name, value] : values.all()) {
    std::int64_t largest = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&value)) largest = *whole;
    if (const auto* pair = std::get_if<Pair>(&value)) largest = std::max((*pair)[0], (*pair)[1]);
    if (largest > kMostOfLayer) fail_at(*entry.find(name), "expected at most {}, found {}", kMostOfLayer, largest);
  }
}

LayerSpec read_layer(ExpandedLayer layer) {
  const LayerType& type = type_of(layer.entry);
  LayerSpec spec;
  Fields fields = type.fields;
  fields.push_back(layer_precision_field());
  spec.values = read_fields(layer.entry, fields, layer_noun(type.name), layer_keys());
  check_sizes(layer.entry, spec.values);
  const std::size_t inputs = layer.in.size();
  const JsonNode* in = layer.entry.find("in");
  const JsonNode& place = in != nullptr ? *in : layer.entry;
  if (type.inputs == kAnyInputs && inputs < 2)
    fail_at(place, "{} reads two or more layers; name them in 'in'", layer_noun(type.name));
  if (type.inputs != kAnyInputs && inputs != static_cast<std::size_t>(type.inputs))
    fail_at(place, "{} reads {} layer, found {}", layer_noun(type.name), type.inputs, inputs);
  spec.id = std::move(layer.id);
  spec.type = type.name;
  spec.in = std::move(layer.in);
  spec.place = where(layer.entry);
  return spec;
}

}  // namespace

const Field& input_field() {
  static const Field field{.name = "input",
                           .kind = FieldKind::numbers,
                           .minimum = 1,
                           .maximum = kMostExtent,
                           .help = "shape of an image: [channels, height, width]"};
  return field;
}

const Field& classes_field() {
  static const Field field{.name = "classes",
                           .minimum = 0,
                           .maximum = kMostClasses,
                           .help = "how many classes the labels have; 0: the targets are numbers (mse)"};
  return field;
}

const Field& layer_precision_field() {
  static const Field field{.name = "precision",
                           .kind = FieldKind::choice,
                           .optional = true,
                           .choices = {"fp32", "fp16", "bf16"},
                           .help = "of this layer, where it is not train.precision"};
  return field;
}

std::span<const std::string> layer_keys() {
  static const std::array<std::string, 4> keys = {"id", "type", "in", "when"};
  return keys;
}

std::string layer_noun(const std::string& type) {
  const bool vowel = std::string("aeiou").find(type.front()) != std::string::npos || type == "mse";
  return fmt::format("{} {} layer", vowel ? "an" : "a", type);
}

JsonNode load_model_file(const JsonNode& model) {
  const JsonNode* file = model.is_object() ? model.find("file") : &model;
  if (file == nullptr) return model;
  if (model.is_object()) {
    static const std::vector<std::string> known = {"file", "input", "classes"};
    check_keys(model, known, "a model that names a file");
  }
  if (!file->is_text()) fail_at(*file, "expected a model object or the path of a model file, found {}", found(*file));

  const std::filesystem::path path = written_path(*file);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    fail_at(*file, "there is no model file '{}'; paths are relative to the file that names them", path.string());
  JsonNode loaded = read_json_file(path);
  check_is_object(loaded, "a model");
  if (loaded.find("model") != nullptr && loaded.find("layers") == nullptr)
    fail_at(loaded, "this is a job, not a model; name a file with 'input', 'classes' and 'layers'");
  loaded.key = model.key;
  loaded.key_place = model.key_place;
  for (const JsonNode& item : model.items) {
    if (item.key == "file") continue;
    if (JsonNode* replaced = loaded.find(item.key))
      *replaced = item;
    else
      loaded.items.push_back(item);
  }
  return loaded;
}

NetworkSpec read_model(const JsonNode& model) {
  static const std::vector<std::string> known = {"input", "classes", "blocks", "layers", "$schema"};
  check_is_object(model, "a model");
  check_keys(model, known, "a model");
  NetworkSpec spec;
  spec.input = read_input(model);
  spec.classes = read_classes(model);
  for (ExpandedLayer& layer : expand_blocks(model, spec.classes)) spec.layers.push_back(read_layer(std::move(layer)));
  return spec;
}

}  // namespace trifold
