#include "runtime/data/synthetic_rows.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "runtime/data/memory_rows.h"
#include "runtime/data/source.h"

namespace trifold {

namespace {

constexpr std::int64_t kMostNumbers = std::int64_t{1} << 34;
// Streams of Purpose::synthetic: 0 and 1 are of the splits of drawn images.
constexpr std::uint32_t kLayoutStream = 2;
constexpr std::uint32_t kRowStream = 3;

// What all samples share.
struct RowLayout {
  std::vector<std::vector<float>> centres;   // [cluster][informative]; cluster c is of class c mod classes
  std::vector<std::vector<float>> mixtures;  // [redundant][informative]
};

RowLayout draw_layout(int classes, std::uint64_t seed, const SyntheticRowsOptions& options) {
  RandomSequence random(seed, Purpose::synthetic, kLayoutStream);
  RowLayout layout;
  const std::uint32_t corners = 1u << options.informative;
  std::vector<std::uint32_t> order(corners);
  for (std::uint32_t corner = 0; corner < corners; ++corner) order[corner] = corner;
  const auto clusters = static_cast<std::uint32_t>(classes * options.clusters);
  for (std::uint32_t cluster = 0; cluster < clusters; ++cluster) {
    std::swap(order[cluster], order[cluster + random.below(corners - cluster)]);
    std::vector<float> centre;
    for (int feature = 0; feature < options.informative; ++feature)
      centre.push_back(
          static_cast<float>((order[cluster] >> feature & 1u) != 0 ? options.separation : -options.separation));
    layout.centres.push_back(std::move(centre));
  }
  for (int mixture = 0; mixture < options.redundant; ++mixture) {
    std::vector<float> weights;
    for (int feature = 0; feature < options.informative; ++feature) weights.push_back(random.uniform(-1, 1));
    layout.mixtures.push_back(std::move(weights));
  }
  return layout;
}

void draw_row(const RowLayout& layout, std::int64_t sample, const SyntheticRowsOptions& options, RandomSequence& random,
              MemoryRowsContent& rows) {
  int label = static_cast<int>(sample % rows.classes);
  const auto cluster = static_cast<std::size_t>(
      label + rows.classes * static_cast<int>(random.below(static_cast<std::uint32_t>(options.clusters))));
  const std::size_t begin = rows.values.size();
  for (const float centre : layout.centres[cluster]) rows.values.push_back(centre + random.normal());
  for (const std::vector<float>& mixture : layout.mixtures) {
    float sum = 0;
    for (std::size_t feature = 0; feature < mixture.size(); ++feature)
      sum += mixture[feature] * rows.values[begin + feature];
    rows.values.push_back(sum);
  }
  while (static_cast<std::int64_t>(rows.values.size() - begin) < rows.shape.elements())
    rows.values.push_back(random.normal());
  if (random.uniform() < static_cast<float>(options.flipped))
    label = static_cast<int>(random.below(static_cast<std::uint32_t>(rows.classes)));
  rows.labels.push_back(label);
}

}  // namespace

std::unique_ptr<Dataset> open_synthetic_rows(const ImageShape& shape, int classes, std::uint64_t seed, Split split,
                                             const SyntheticRowsOptions& options) {
  if (classes < 2) fail_input("synthetic rows have at least 2 classes, not {}; change model.classes", classes);
  if (options.informative < 1 || options.redundant < 0 || options.informative + options.redundant > shape.elements())
    fail_input("{} informative and {} redundant features do not fit into the {} of the model's input",
               options.informative, options.redundant, shape.elements());
  if (options.informative > kMostInformativeFeatures)
    fail_input("at most {} features of synthetic rows are informative, not {}", kMostInformativeFeatures,
               options.informative);
  if (options.clusters < 1 || std::int64_t{classes} * options.clusters > std::int64_t{1} << options.informative)
    fail_input("{} classes of {} clusters need as many corners, and a cube of {} informative features has {}", classes,
               options.clusters, options.informative, 1 << options.informative);
  const std::int64_t samples = split == Split::train ? options.train_samples : options.test_samples;
  if (samples < 1 || samples > kMostNumbers / shape.elements())
    fail_input("synthetic rows cannot be {} {} samples of {}; ask for 1 to {}", samples, name_of(split),
               to_string(shape), kMostNumbers / shape.elements());
  MemoryRowsContent rows{
      .shape = shape, .classes = classes, .name = fmt::format("synthetic_rows {} set", name_of(split))};
  rows.values.reserve(static_cast<std::size_t>(samples * shape.elements()));
  const RowLayout layout = draw_layout(classes, seed, options);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    RandomSequence random(seed, Purpose::synthetic, kRowStream + static_cast<std::uint32_t>(split),
                          static_cast<std::uint64_t>(sample));
    draw_row(layout, sample, options, random, rows);
  }
  return std::make_unique<MemoryRows>(std::move(rows));
}

namespace {

Field count_field(const char* name, std::int64_t fallback, double least, double most, const char* help) {
  return {.name = name, .fallback = fallback, .minimum = least, .maximum = most, .help = help};
}

const RegisterSource register_synthetic_rows(
    {.name = "synthetic_rows",
     .help = "rows of numbers drawn from a seed, as scikit-learn's make_classification",
     .position = 70,
     .fields = {count_field("train_samples", SyntheticRowsOptions().train_samples, 1, kMostDrawnSamples,
                            "rows to train on"),
                count_field("test_samples", SyntheticRowsOptions().test_samples, 1, kMostDrawnSamples,
                            "rows to evaluate on"),
                {.name = "seed", .fallback = std::int64_t{1}, .minimum = 0, .help = "from which all rows are drawn"},
                count_field("informative", SyntheticRowsOptions().informative, 1, kMostInformativeFeatures,
                            "features that tell classes apart"),
                count_field("redundant", SyntheticRowsOptions().redundant, 0, kLargestExtent,
                            "features that are mixtures of those; the rest is noise"),
                count_field("clusters", SyntheticRowsOptions().clusters, 1, kLargestExtent, "of samples, a class"),
                {.name = "separation",
                 .kind = FieldKind::number,
                 .fallback = SyntheticRowsOptions().separation,
                 .minimum = 0,
                 .help = "of the clusters, in their deviations"},
                {.name = "flipped",
                 .kind = FieldKind::number,
                 .fallback = SyntheticRowsOptions().flipped,
                 .minimum = 0,
                 .maximum = 1,
                 .help = "share of samples with a label drawn at random"}},
     .only_on_host = "rows of numbers are no bytes that a device could augment",
     .open = [](const DataSource& source, Split split) {
       const FieldValues& values = source.values;
       return open_synthetic_rows(source.input, source.classes, static_cast<std::uint64_t>(values.integer("seed")),
                                  split,
                                  {.train_samples = values.integer("train_samples"),
                                   .test_samples = values.integer("test_samples"),
                                   .informative = static_cast<int>(values.integer("informative")),
                                   .redundant = static_cast<int>(values.integer("redundant")),
                                   .clusters = static_cast<int>(values.integer("clusters")),
                                   .separation = values.number("separation"),
                                   .flipped = values.number("flipped")});
     }});

}  // namespace

}  // namespace trifold
