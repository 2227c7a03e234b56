#include "runtime/config/data_section.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "runtime/config/source_path.h"
#include "runtime/config/validate.h"

namespace trifold {
namespace {

constexpr double kMostSamples = 1e8;
constexpr double kMostPixels = 65536;  // a side
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
           .fields = {{.name = "pad", .fallback = std::int64_t{4}, .minimum = 1, .maximum = kMostPixels}}},
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
                       .maximum = kMostPixels,
                       .help = "side in pixels"}}}}};
}

Field path_field(const char* help) {
  return {.name = "path", .kind = FieldKind::text, .help = help};
}

// The fields of one source, and those that all sources have.
ObjectType source_type(const char* type, const char* help, Fields fields) {
  ObjectType object{
      .type = type,
      .noun = std::string(type).find_first_of("aeiou") == 0 ? fmt::format("an {} data section", type)
                                                            : fmt::format("a {} data section", type),
      .help = help,
      .fields = std::move(fields),
      .second_forms = {{"class_weights", {.name = "class_weights", .kind = FieldKind::numbers, .minimum = 0}}},
      .nested = {normalize_type(), augment_type()}};
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

ObjectType synthetic_rows_type() {
  const SyntheticRowsOptions defaults;
  const auto count = [](const char* name, std::int64_t fallback, double least, double most, const char* help) {
    return Field{.name = name, .fallback = fallback, .minimum = least, .maximum = most, .help = help};
  };
  return source_type(
      "synthetic_rows", "rows of numbers drawn from a seed, as scikit-learn's make_classification",
      {count("train_samples", defaults.train_samples, 1, kMostSamples, ""),
       count("test_samples", defaults.test_samples, 1, kMostSamples, ""),
       {.name = "seed", .fallback = std::int64_t{1}, .minimum = 0},
       count("informative", defaults.informative, 1, kMostInformativeFeatures, "features that tell classes apart"),
       count("redundant", defaults.redundant, 0, kMostPixels, "features that are mixtures of those; the rest is noise"),
       count("clusters", defaults.clusters, 1, kMostPixels, "of samples, a class"),
       {.name = "separation",
        .kind = FieldKind::number,
        .fallback = defaults.separation,
        .minimum = 0,
        .help = "of the clusters, in their deviations"},
       {.name = "flipped",
        .kind = FieldKind::number,
        .fallback = defaults.flipped,
        .minimum = 0,
        .maximum = 1,
        .help = "share of samples with a label drawn at random"}});
}

const JsonNode* member(const ObjectValues& object, std::string_view name) {
  return object.node != nullptr ? object.node->find(name) : nullptr;
}

// A column is named, or numbered.
std::string column_text(const FieldValues& values, const char* field) {
  const FieldValue& column = values.all().find(field)->second;
  const auto* index = std::get_if<std::int64_t>(&column);
  return index != nullptr ? std::to_string(*index) : std::get<std::string>(column);
}

void read_source(const ObjectValues& data, DataSource& source) {
  const FieldValues& values = data.values;
  if (const JsonNode* path = member(data, "path")) source.path = absolute_path(*path);
  if (data.type == "image_folder") {
    source.image_folder = {.resize_shorter_px = static_cast<int>(values.integer("resize")),
                           .random_resized_crop = values.boolean("random_resized_crop"),
                           .least_area = static_cast<float>(values.number("least_area"))};
  } else if (data.type == "csv") {
    source.csv.label_column = column_text(values, "label_column");
    if (values.has("time_column")) source.csv.time_column = column_text(values, "time_column");
    source.csv.targets = static_cast<int>(values.integer("targets"));
    if (const JsonNode* path = member(data, "test_path")) source.csv.test_path = absolute_path(*path);
  } else if (data.type == "synthetic") {
    source.synthetic = {.train_samples = values.integer("train_samples"),
                        .test_samples = values.integer("test_samples")};
    source.seed = static_cast<std::uint64_t>(values.integer("seed"));
  } else if (data.type == "synthetic_rows") {
    source.synthetic_rows = {.train_samples = values.integer("train_samples"),
                             .test_samples = values.integer("test_samples"),
                             .informative = static_cast<int>(values.integer("informative")),
                             .redundant = static_cast<int>(values.integer("redundant")),
                             .clusters = static_cast<int>(values.integer("clusters")),
                             .separation = values.number("separation"),
                             .flipped = values.number("flipped")};
    source.seed = static_cast<std::uint64_t>(values.integer("seed"));
  }
}

int read_classes(const ObjectValues& data, const NetworkSpec& model) {
  if (data.type != "synthetic") return static_cast<int>(model.classes);
  const bool given = data.values.has("classes");
  const std::int64_t classes = given ? data.values.integer("classes") : model.classes;
  if (classes > model.classes)
    fail_field(data, "classes", *data.node, "the model has {} classes, fewer than the {} of its data", model.classes,
               classes);
  if (classes < 2)
    fail_at(*data.node, "the synthetic set has at least 2 classes and the model {}; set 'classes' of the model",
            classes);
  if (classes > kMostSyntheticClasses)
    fail_at(*data.node, "the synthetic set has at most {} classes and the model {}; set 'classes' here",
            kMostSyntheticClasses, classes);
  return static_cast<int>(classes);
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
  if (division.kind == DivisionKind::time && !data.values.has("time_column"))
    fail_field(data, "shard", *data.node, "{}",
               data.type == "csv" ? "dividing by time needs 'time_column': the column that says when"
                                  : "only a csv has times to divide by: use another division");
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
  static const NestedType type = {
      .name = "data",
      .help = "the samples",
      .required = true,
      .types = {
          source_type("idx", "MNIST and its relatives", {path_field("folder with train-images-idx3-ubyte[.gz] etc.")}),
          source_type("cifar10", "CIFAR-10, binary version", {path_field("folder with data_batch_1.bin etc.")}),
          source_type("cifar100", "CIFAR-100, binary version", {path_field("folder with train.bin and test.bin")}),
          source_type("image_folder", "JPEG and PNG files",
                      {path_field("folder with train/<class>/*.jpg and test/<class>/*.jpg"),
                       {.name = "resize",
                        .fallback = std::int64_t{0},
                        .minimum = 0,
                        .maximum = kMostPixels,
                        .help = "shorter side before the centre crop; 0: as little as it needs"},
                       {.name = "random_resized_crop",
                        .kind = FieldKind::boolean,
                        .fallback = false,
                        .help = "train on a random part of the picture"},
                       {.name = "least_area",
                        .kind = FieldKind::number,
                        .fallback = 0.08,
                        .minimum = 0.001,
                        .maximum = 1,
                        .help = "the smallest such part"}}),
          [] {
            ObjectType csv = source_type(
                "csv", "rows of numbers",
                {path_field("folder with train.csv and test.csv, or the file to train on"),
                 {.name = "label_column",
                  .kind = FieldKind::text,
                  .fallback = std::string(),
                  .help = "name or number (from 0; negative: from the end); empty: the last"},
                 {.name = "targets",
                  .fallback = std::int64_t{0},
                  .minimum = 0,
                  .maximum = kMostPixels,
                  .help = "no labels: the last so many columns are numbers to predict"},
                 {.name = "time_column",
                  .kind = FieldKind::text,
                  .optional = true,
                  .help = "name or number of a column of times (numbers, or dates as 2024-02-29T23:59Z), which are no "
                          "features: data.shard \"time\" divides by them"},
                 {.name = "test_path", .kind = FieldKind::text, .optional = true, .help = "the file to test on"}});
            for (const char* column : {"label_column", "time_column"}) csv.second_forms[column] = {.name = column};
            return csv;
          }(),
          source_type(
              "synthetic", "drawn from a seed, no download",
              {{.name = "train_samples", .fallback = std::int64_t{10000}, .minimum = 1, .maximum = kMostSamples},
               {.name = "test_samples", .fallback = std::int64_t{2000}, .minimum = 1, .maximum = kMostSamples},
               {.name = "seed", .fallback = std::int64_t{1}, .minimum = 0},
               {.name = "classes",
                .optional = true,
                .minimum = 2,
                .maximum = kMostSyntheticClasses,
                .help = "default: the model's"}}),
          synthetic_rows_type()}};
  return type;
}

DataConfig read_data(const JsonNode& section, const NetworkSpec& model) {
  const ObjectValues data = read_object(&section, data_section());
  DataConfig config;
  config.source.type = data.type;
  config.source.input = {.channels = static_cast<int>(model.input[0]),
                         .height = static_cast<int>(model.input[1]),
                         .width = static_cast<int>(model.input[2])};
  config.source.classes = read_classes(data, model);
  read_source(data, config.source);
  config.normalize = read_normalize(data, model.input[0]);
  config.augment = read_augment(data);
  config.sampler = data.values.text("sampler") == "balanced" ? SampleOrder::balanced : SampleOrder::shuffled;
  read_class_weights(data, model.classes, config);
  config.division = read_division(data);
  config.threads = static_cast<int>(data.values.integer("threads"));
  config.augment_on = read_augment_on(data, config);
  return config;
}

bool operator==(const DataConfig& a, const DataConfig& b) {
  const auto parts = [](const DataConfig& c) {
    const DataSource& s = c.source;
    return std::tie(s.type, s.path, s.input, s.classes, s.seed, s.image_folder.resize_shorter_px,
                    s.image_folder.random_resized_crop, s.image_folder.least_area, s.csv.label_column, s.csv.targets,
                    s.csv.test_path, s.csv.time_column, s.synthetic.train_samples, s.synthetic.test_samples,
                    s.synthetic_rows, c.normalize.mean, c.normalize.std, c.augment, c.sampler, c.class_weighting,
                    c.class_weights, c.division, c.threads, c.augment_on);
  };
  return parts(a) == parts(b);
}

std::string why_only_on_host(const DataConfig& data) {
  if (data.source.type == "csv") return "the rows of a csv are no bytes that a device could augment";
  if (data.source.type == "synthetic_rows") return "rows of numbers are no bytes that a device could augment";
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
