#include "runtime/config/data_section.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/config/source_path.h"
#include "runtime/config/validate.h"

namespace trifold {
namespace {

constexpr double kMostLoaders = 64;

NestedType normalize_type() {
  return {.name = "normalize",
          .help = "(x - mean) / std by channel, x from 0 to 1 for images; one value serves all channels",
          .types = {
              {.noun = "'normalize'",
               .fields = {
                   {.name = "mean", .kind = FieldKind::numbers, .fallback = std::vector<double>{}},
                   {.name = "std", .kind = FieldKind::numbers, .fallback = std::vector<double>{}, .minimum = 1e-9}}}}};
}

NestedType augment_type() {
  return {
      .name = "augment",
      .help = "random changes of training samples, in this order",
      .list = true,
      .types = {
          {.type = "random_crop",
           .noun = "a random_crop",
           .help = "a window of the image's own size on the image padded with zeros",
           .fields = {{.name = "pad", .fallback = std::int64_t{4}, .minimum = 1, .maximum = kLargestExtent}}},
          {.type = "flip",
           .noun = "a flip",
           .help = "left and right change places",
           .fields = {{.name = "probability", .kind = FieldKind::number, .fallback = 0.5, .minimum = 0, .maximum = 1}}},
          {.type = "cutout",
           .noun = "a cutout",
           .help = "a square is blanked",
           .fields = {{.name = "size",
                       .fallback = std::int64_t{8},
                       .minimum = 1,
                       .maximum = kLargestExtent,
                       .help = "side in pixels"}}}}};
}

// The fields of one source, and those that all sources have.
ObjectType source_type(const DataSourceType& type) {
  ObjectType object{
      .type = type.name,
      .noun = fmt::format("{} {} data section", type.name.find_first_of("aeiou") == 0 ? "an" : "a", type.name),
      .help = type.help,
      .fields = type.fields,
      .second_forms = type.second_forms,
      .nested = {normalize_type(), augment_type()}};
  object.second_forms["class_weights"] = {.name = "class_weights", .kind = FieldKind::numbers, .minimum = 0};
  const Fields shared = {{.name = "sampler",
                          .kind = FieldKind::choice,
                          .fallback = std::string("shuffle"),
                          .choices = {"shuffle", "balanced"},
                          .help = "balanced: every class equally often"},
                         {.name = "class_weights",
                          .kind = FieldKind::choice,
                          .fallback = std::string("none"),
                          .choices = {"none", "balanced"},
                          .help = "weights of the loss, which is a weighted mean; balanced: a rare class counts more; "
                                  "or one number per class"},
                         {.name = "shard",
                          .kind = FieldKind::choice,
                          .optional = true,
                          .choices = division_names(),
                          .help = "what of the samples each worker of parameter servers, or federated client, has; "
                                  "batch: its share of every batch, as replicas have it; index: a run of samples; "
                                  "rank: every so-manieth; kfold: of a shuffle, a run; time: the oldest to the first, "
                                  "by time_column; dirichlet: classes at random, uneven. Default: batch, of federated "
                                  "clients kfold"},
                         {.name = "shard_alpha",
                          .kind = FieldKind::number,
                          .fallback = Division().alpha,
                          .minimum = 1e-3,
                          .maximum = 1e6,
                          .help = "dirichlet: the smaller, the fewer classes a shard has"},
                         {.name = "threads",
                          .fallback = std::int64_t{1},
                          .minimum = 1,
                          .maximum = kMostLoaders,
                          .help = "threads that load ahead"},
                         {.name = "augment_on",
                          .kind = FieldKind::choice,
                          .fallback = std::string("auto"),
                          .choices = {"auto", "host", "device"},
                          .help = "where to augment and normalise; device: in the program; auto: device on a GPU"}};
  object.fields.insert(object.fields.end(), shared.begin(), shared.end());
  return object;
}

// Paths become absolute, and a text that was written as a number ("label_column": -1) a text.
FieldValue source_value(const ObjectValues& data, const DataSourceType& type, const Field& field) {
  const JsonNode* node = data.node->find(field.name);
  if (node != nullptr && std::ranges::find(type.paths, field.name) != type.paths.end())
    return absolute_path(*node).string();
  const FieldValue& value = data.values.all().find(field.name)->second;
  const auto* number = std::get_if<std::int64_t>(&value);
  return number != nullptr && field.kind == FieldKind::text ? FieldValue(std::to_string(*number)) : value;
}

DataSource read_source(const ObjectValues& data, const NetworkSpec& model) {
  DataSource source{.type = data.type,
                    .input = {.channels = static_cast<int>(model.input[0]),
                              .height = static_cast<int>(model.input[1]),
                              .width = static_cast<int>(model.input[2])},
                    .classes = static_cast<int>(model.classes)};
  const DataSourceType& type = data_source_type(data.type);
  for (const Field& field : type.fields)
    if (data.values.has(field.name)) source.values.set(field.name, source_value(data, type, field));
  try {
    complete(source);
  } catch (const SourceError& error) {
    fail_field(data, error.field, *data.node, "{}", error.message);
  }
  return source;
}

Normalisation read_normalize(const ObjectValues& data, std::int64_t channels) {
  const ObjectValues& normalize = data.object("normalize");
  Normalisation result;
  const auto read = [&](const char* name, std::vector<float>& floats) {
    const std::vector<double>& numbers = normalize.values.numbers(name);
    if (numbers.size() > 1 && static_cast<std::int64_t>(numbers.size()) != channels)
      fail_field(normalize, name, *data.node, "expected 1 number or one for each of the {} channels, found {}",
                 channels, numbers.size());
    for (const double number : numbers) {
      if (std::abs(number) > double{std::numeric_limits<float>::max()})
        fail_field(normalize, name, *data.node, "{} is beyond the range of a 32-bit float", number);
      floats.push_back(static_cast<float>(number));
    }
  };
  read("mean", result.mean);
  read("std", result.std);
  return result;
}

std::vector<Augmentation> read_augment(const ObjectValues& data) {
  std::vector<Augmentation> result;
  for (const ObjectValues& step : data.list("augment")) {
    if (step.type == "random_crop")
      result.emplace_back(RandomCrop{.padding_px = static_cast<int>(step.values.integer("pad"))});
    else if (step.type == "flip")
      result.emplace_back(HorizontalFlip{.probability = static_cast<float>(step.values.number("probability"))});
    else
      result.emplace_back(Cutout{.side_px = static_cast<int>(step.values.integer("size"))});
  }
  return result;
}

void read_class_weights(const ObjectValues& data, std::int64_t classes, DataConfig& config) {
  const FieldValue& value = data.values.all().find("class_weights")->second;
  if (const auto* weights = std::get_if<std::vector<double>>(&value)) {
    if (static_cast<std::int64_t>(weights->size()) != classes)
      fail_field(data, "class_weights", *data.node, "expected one number for each of the {} classes, found {}", classes,
                 weights->size());
    config.class_weighting = ClassWeighting::listed;
    config.class_weights = *weights;
    return;
  }
  const bool balanced = std::get<std::string>(value) == "balanced";
  config.class_weighting = balanced ? ClassWeighting::balanced : ClassWeighting::none;
}

Division read_division(const ObjectValues& data) {
  Division division{.alpha = data.values.number("shard_alpha")};
  if (data.values.has("shard")) division.kind = parse_division(data.values.text("shard"));
  if (division.kind != DivisionKind::time) return division;
  const std::string& time_field = data_source_type(data.type).time_field;
  if (time_field.empty()) {
    std::vector<std::string> timed;
    for (const DataSourceType* type : data_source_types())
      if (!type->time_field.empty()) timed.push_back(type->name);
    fail_field(data, "shard", *data.node, "only a {} has times to divide by: use another division",
               fmt::join(timed, " or a "));
  }
  if (!data.values.has(time_field))
    fail_field(data, "shard", *data.node, "dividing by time needs '{}': the column that says when", time_field);
  return division;
}

AugmentOn read_augment_on(const ObjectValues& data, const DataConfig& config) {
  const std::string& name = data.values.text("augment_on");
  if (name == name_of(AugmentOn::automatic)) return AugmentOn::automatic;
  if (name == name_of(AugmentOn::host)) return AugmentOn::host;
  if (const std::string why = why_only_on_host(config); !why.empty())
    fail_field(data, "augment_on", *data.node, "{}; set it to \"host\" or leave it out", why);
  return AugmentOn::device;
}

}  // namespace

const NestedType& data_section() {
  static const NestedType section = [] {
    NestedType nested{.name = "data", .help = "the samples", .required = true, .types = {}};
    for (const DataSourceType* type : data_source_types()) nested.types.push_back(source_type(*type));
    return nested;
  }();
  return section;
}

DataConfig read_data(const JsonNode& section, const NetworkSpec& model) {
  const ObjectValues data = read_object(&section, data_section());
  DataConfig config;
  config.source = read_source(data, model);
  config.normalize = read_normalize(data, model.input[0]);
  config.augment = read_augment(data);
  config.sampler = data.values.text("sampler") == "balanced" ? SampleOrder::balanced : SampleOrder::shuffled;
  read_class_weights(data, model.classes, config);
  config.division = read_division(data);
  config.threads = static_cast<int>(data.values.integer("threads"));
  config.augment_on = read_augment_on(data, config);
  return config;
}

std::string why_only_on_host(const DataConfig& data) {
  if (const std::string& why = data_source_type(data.source.type).only_on_host; !why.empty()) return why;
  if (data.augment.size() > kMostAugmentations)
    return fmt::format("a device applies {} augmentations at most, and there are {}", kMostAugmentations,
                       data.augment.size());
  return {};
}

const char* name_of(AugmentOn where) {
  switch (where) {
    case AugmentOn::automatic:
      return "auto";
    case AugmentOn::host:
      return "host";
    case AugmentOn::device:
      return "device";
  }
  return "?";
}

const char* name_of(SampleOrder order) {
  switch (order) {
    case SampleOrder::sequential:
      return "sequential";
    case SampleOrder::shuffled:
      return "shuffle";
    case SampleOrder::balanced:
      return "balanced";
  }
  return "?";
}

}  // namespace trifold
