#include "runtime/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "runtime/data/memory_images.h"
#include "runtime/data/source.h"

namespace trifold {

namespace {

constexpr int kSmallestSide = 8;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 36;

// A straight stroke, or (ring) a circle around (x0, y0) of radius x1. Glyphs are drawn in [-1, 1] x [-1, 1], y
// downwards.
struct Stroke {
  float x0 = 0;
  float y0 = 0;
  float x1 = 0;
  float y1 = 0;
  bool ring = false;
};

constexpr Stroke line(float x0, float y0, float x1, float y1) {
  return {x0, y0, x1, y1, false};
}
constexpr Stroke ring(float x, float y, float radius) {
  return {x, y, radius, 0, true};
}

struct Glyph {
  std::array<Stroke, 5> strokes{};
  int count = 0;
};

template <class... Strokes>
constexpr Glyph glyph(Strokes... strokes) {
  return {{strokes...}, static_cast<int>(sizeof...(strokes))};
}

// One a class. Those early in the list differ most, so that a few classes make an easier set than many.
constexpr std::array<Glyph, kMostSyntheticClasses> kGlyphs{
    glyph(ring(0, 0, 0.8f)),                                                                        // circle
    glyph(line(0, -0.9f, 0, 0.9f), line(-0.9f, 0, 0.9f, 0)),                                        // plus
    glyph(line(0, -0.9f, 0.9f, 0.7f), line(0.9f, 0.7f, -0.9f, 0.7f), line(-0.9f, 0.7f, 0, -0.9f)),  // triangle
    glyph(line(-0.8f, -0.8f, -0.8f, 0.8f), line(-0.8f, 0.8f, 0.8f, 0.8f)),                          // L
    glyph(line(-0.8f, -0.5f, 0.8f, -0.5f), line(-0.8f, 0.5f, 0.8f, 0.5f)),                          // equals sign
    glyph(line(-0.8f, -0.8f, 0.8f, -0.8f), line(0.8f, -0.8f, -0.8f, 0.8f), line(-0.8f, 0.8f, 0.8f, 0.8f)),  // Z
    glyph(line(-0.8f, -0.8f, 0.8f, -0.8f), line(0, -0.8f, 0, 0.9f)),                                        // T
    glyph(line(-0.7f, -0.8f, -0.7f, 0.8f), line(0.7f, -0.8f, 0.7f, 0.8f), line(-0.7f, 0, 0.7f, 0)),         // H
    glyph(ring(0, -0.6f, 0.12f), ring(-0.6f, 0.5f, 0.12f), ring(0.6f, 0.5f, 0.12f)),  // three dots
    glyph(line(-0.8f, -0.8f, -0.8f, 0.8f), line(-0.8f, 0.8f, 0.8f, 0.8f), line(0.8f, 0.8f, 0.8f, -0.8f),
          line(0.8f, -0.8f, -0.8f, -0.8f)),                                         // square
    glyph(line(0, -0.9f, 0, 0.9f)),                                                 // bar
    glyph(ring(0, 0, 0.85f), ring(0, 0, 0.2f)),                                     // target
    glyph(line(-0.8f, -0.8f, 0, 0), line(0.8f, -0.8f, 0, 0), line(0, 0, 0, 0.9f)),  // Y
    glyph(line(-0.8f, 0.8f, 0.8f, -0.8f), line(-0.8f, -0.8f, 0.8f, 0.8f), line(-0.8f, -0.8f, 0.8f, -0.8f),
          line(-0.8f, 0.8f, 0.8f, 0.8f)),                                                                  // hourglass
    glyph(line(-0.7f, -0.8f, -0.7f, 0.8f), line(-0.7f, 0.8f, 0.7f, 0.8f), line(0.7f, 0.8f, 0.7f, -0.8f)),  // U
    glyph(line(-0.9f, -0.7f, -0.45f, 0.7f), line(-0.45f, 0.7f, 0, -0.5f), line(0, -0.5f, 0.45f, 0.7f),
          line(0.45f, 0.7f, 0.9f, -0.7f)),                                                      // W
    glyph(line(0, 0.9f, 0, -0.9f), line(0, -0.9f, -0.6f, -0.2f), line(0, -0.9f, 0.6f, -0.2f)),  // arrow
    glyph(ring(-0.6f, -0.6f, 0.12f), ring(0.6f, -0.6f, 0.12f), ring(-0.6f, 0.6f, 0.12f),
          ring(0.6f, 0.6f, 0.12f)),  // four dots
    glyph(line(-0.7f, -0.8f, -0.7f, 0.8f), line(-0.7f, -0.8f, 0.7f, -0.8f), line(-0.7f, 0, 0.5f, 0),
          line(-0.7f, 0.8f, 0.7f, 0.8f)),                  // E
    glyph(ring(0, -0.45f, 0.42f), ring(0, 0.45f, 0.42f)),  // eight
};

float distance_to(const Stroke& stroke, float x, float y) {
  if (stroke.ring) return std::abs(std::hypot(x - stroke.x0, y - stroke.y0) - stroke.x1);
  const float dx = stroke.x1 - stroke.x0;
  const float dy = stroke.y1 - stroke.y0;
  const float along = ((x - stroke.x0) * dx + (y - stroke.y0) * dy) / (dx * dx + dy * dy);
  const float t = std::clamp(along, 0.0f, 1.0f);
  return std::hypot(x - stroke.x0 - t * dx, y - stroke.y0 - t * dy);
}

// Everything random about one image but its noise.
struct Scene {
  float centre_x, centre_y;                       // pixels
  float to_glyph[2][2];                           // from pixels off the centre to glyph units
  float half_stroke_px;                           // half the thickness of a stroke
  float glyph_px;                                 // pixels in a glyph unit
  float tilt_x, tilt_y;                           // brightness gradient of the background, levels a pixel
  float wave_x, wave_y, wave_phase, wave_levels;  // a soft pattern on the background
  std::array<Stroke, 3> clutter;                  // in pixels
  float clutter_half_px;
};

Scene draw_scene(const ImageShape& shape, RandomSequence& random) {
  const float height = static_cast<float>(shape.height);
  const float width = static_cast<float>(shape.width);
  const float half = std::min(height, width) / 2;
  Scene scene{};
  scene.glyph_px = half * random.uniform(0.60f, 0.85f);
  const float room_x = std::max(0.0f, width / 2 - scene.glyph_px);
  const float room_y = std::max(0.0f, height / 2 - scene.glyph_px);
  scene.centre_x = width / 2 + room_x * random.uniform(-1, 1);
  scene.centre_y = height / 2 + room_y * random.uniform(-1, 1);
  const float angle = random.uniform(-0.3f, 0.3f);
  const float stretch = std::exp(random.uniform(-0.15f, 0.15f));
  const float x_px = scene.glyph_px * stretch;
  const float y_px = scene.glyph_px / stretch;
  scene.to_glyph[0][0] = std::cos(angle) / x_px;
  scene.to_glyph[0][1] = std::sin(angle) / x_px;
  scene.to_glyph[1][0] = -std::sin(angle) / y_px;
  scene.to_glyph[1][1] = std::cos(angle) / y_px;
  scene.half_stroke_px = std::max(0.7f, scene.glyph_px * random.uniform(0.09f, 0.17f));
  scene.tilt_x = random.uniform(-30, 30) / width;
  scene.tilt_y = random.uniform(-30, 30) / height;
  scene.wave_x = random.uniform(-0.9f, 0.9f) * 14 / half;
  scene.wave_y = random.uniform(-0.9f, 0.9f) * 14 / half;
  scene.wave_phase = random.uniform(0, 6.2831853f);
  scene.wave_levels = random.uniform(0, 10);
  for (Stroke& stroke : scene.clutter) {
    const float x = random.uniform(0, width);
    const float y = random.uniform(0, height);
    const float turn = random.uniform(0, 6.2831853f);
    const float length = half * random.uniform(0.2f, 0.5f);
    stroke = line(x, y, x + length * std::cos(turn), y + length * std::sin(turn));
  }
  scene.clutter_half_px = std::max(0.5f, half * 0.05f);
  return scene;
}

// How much of a pixel a stroke covers whose edge is `outside_px` away.
float coverage(float outside_px) {
  return std::clamp(0.5f - outside_px, 0.0f, 1.0f);
}

}  // namespace

void draw_synthetic(const SyntheticImage& image, std::span<std::uint8_t> out) {
  const ImageShape& shape = image.shape;
  TRIFOLD_CHECK(static_cast<std::int64_t>(out.size()) == shape.elements(), "{} pixels wanted of {}", out.size(),
                shape.elements());
  const Glyph& form = kGlyphs[static_cast<std::size_t>(image.label)];
  RandomSequence random(image.seed, Purpose::synthetic, static_cast<std::uint32_t>(image.split),
                        static_cast<std::uint64_t>(image.index));
  const Scene scene = draw_scene(shape, random);
  // Glyph and background lie either side of a middle gray by the same amount on average, whichever is the lighter.
  const float polarity = random.uniform() < 0.5f ? -1.0f : 1.0f;
  const float contrast = polarity * random.uniform(60, 120);
  const float middle = random.uniform(105, 150);

  // Shapes first: they are the same for all channels.
  const std::int64_t pixels = shape.pixels();
  thread_local std::vector<float> layers;  // [background, clutter, glyph] a pixel
  layers.resize(static_cast<std::size_t>(3 * pixels));
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      const float px = static_cast<float>(x) + 0.5f;
      const float py = static_cast<float>(y) + 0.5f;
      const float dx = px - scene.centre_x;
      const float dy = py - scene.centre_y;
      const float gx = scene.to_glyph[0][0] * dx + scene.to_glyph[0][1] * dy;
      const float gy = scene.to_glyph[1][0] * dx + scene.to_glyph[1][1] * dy;
      float nearest = 1e9f;
      for (int s = 0; s < form.count; ++s) {
        nearest = std::min(nearest, distance_to(form.strokes[static_cast<std::size_t>(s)], gx, gy));
      }
      float nearest_clutter = 1e9f;
      for (const Stroke& stroke : scene.clutter)
        nearest_clutter = std::min(nearest_clutter, distance_to(stroke, px, py));
      float* layer = layers.data() + 3 * (static_cast<std::int64_t>(y) * shape.width + x);
      layer[0] = scene.tilt_x * (px - static_cast<float>(shape.width) / 2) +
                 scene.tilt_y * (py - static_cast<float>(shape.height) / 2) +
                 scene.wave_levels * std::sin(scene.wave_x * px + scene.wave_y * py + scene.wave_phase);
      layer[1] = coverage(nearest_clutter - scene.clutter_half_px);
      layer[2] = coverage(nearest * scene.glyph_px - scene.half_stroke_px);
    }
  }

  for (int channel = 0; channel < shape.channels; ++channel) {
    const float back = middle - contrast / 2 + random.uniform(-25, 25);
    const float ink = back + contrast * random.uniform(0.75f, 1.25f);
    const float clutter = back + random.uniform(-40, 40);
    const float noise_levels = random.uniform(4, 16);
    std::uint8_t* plane = out.data() + channel * pixels;
    std::uint32_t bits = 0;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const float* layer = layers.data() + 3 * i;
      // The difference of two bytes is near enough to a bell curve, and two pixels' worth come from one number.
      bits = i % 2 == 0 ? random.bits() : bits >> 16;
      const float noise =
          static_cast<float>(static_cast<int>(bits & 255u) - static_cast<int>(bits >> 8 & 255u)) / 104.0f;
      float value = back + layer[0] + noise * noise_levels;
      value += layer[1] * (clutter - back);
      value += layer[2] * (ink - back) - layer[2] * layer[1] * (clutter - back);
      plane[i] = static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
    }
  }
}

std::unique_ptr<Dataset> open_synthetic(const ImageShape& shape, int classes, std::uint64_t seed, Split split,
                                        const SyntheticOptions& options) {
  if (classes < 2 || classes > kMostSyntheticClasses) {
    fail_input("the synthetic set has 2 to {} classes, not {}; change model.classes", kMostSyntheticClasses, classes);
  }
  if (shape.channels < 1 || shape.height < kSmallestSide || shape.width < kSmallestSide) {
    fail_input("the synthetic set draws images of {} pixels a side or more, not {}; change model.input", kSmallestSide,
               to_string(shape));
  }
  const std::int64_t samples = split == Split::train ? options.train_samples : options.test_samples;
  if (samples < 1 || samples > kMostBytes / shape.elements()) {
    fail_input("the synthetic set cannot have {} {} samples of {}; ask for 1 to {}", samples, name_of(split),
               to_string(shape), kMostBytes / shape.elements());
  }
  MemoryImagesContent content{.shape = shape, .classes = classes};
  content.pixels.resize(static_cast<std::size_t>(samples * shape.elements()));
  content.labels.resize(static_cast<std::size_t>(samples));
  content.origins = {{.first_sample = 0, .name = fmt::format("synthetic {} set", name_of(split))}};
  parallel_for(samples, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const int label = static_cast<int>(i % classes);
      content.labels[static_cast<std::size_t>(i)] = label;
      draw_synthetic(
          {.shape = shape, .seed = seed, .split = split, .index = i, .label = label},
          std::span(content.pixels)
              .subspan(static_cast<std::size_t>(i * shape.elements()), static_cast<std::size_t>(shape.elements())));
    }
  });
  return std::make_unique<MemoryImages>(std::move(content));
}

namespace {

// A model may have more classes than the data.
void complete_synthetic(DataSource& source) {
  const bool given = source.values.has("classes");
  const std::int64_t classes = given ? source.values.integer("classes") : source.classes;
  if (classes > source.classes)
    throw SourceError{fmt::format("the model has {} classes, fewer than the {} of its data", source.classes, classes),
                      "classes"};
  if (classes < 2)
    throw SourceError{
        fmt::format("the synthetic set has at least 2 classes and the model {}; set 'classes' of the model", classes)};
  if (classes > kMostSyntheticClasses)
    throw SourceError{fmt::format("the synthetic set has at most {} classes and the model {}; set 'classes' here",
                                  kMostSyntheticClasses, classes)};
  source.values.set("classes", classes);
}

const RegisterSource register_synthetic(
    {.name = "synthetic",
     .help = "drawn from a seed, no download",
     .position = 60,
     .fields = {{.name = "train_samples",
                 .fallback = SyntheticOptions().train_samples,
                 .minimum = 1,
                 .maximum = kMostDrawnSamples,
                 .help = "images to train on"},
                {.name = "test_samples",
                 .fallback = SyntheticOptions().test_samples,
                 .minimum = 1,
                 .maximum = kMostDrawnSamples,
                 .help = "images to evaluate on"},
                {.name = "seed", .fallback = std::int64_t{1}, .minimum = 0, .help = "from which all images are drawn"},
                {.name = "classes",
                 .optional = true,
                 .minimum = 2,
                 .maximum = kMostSyntheticClasses,
                 .help = "default: the model's"}},
     .complete = complete_synthetic,
     .open = [](const DataSource& source, Split split) {
       const FieldValues& values = source.values;
       return open_synthetic(
           source.input, static_cast<int>(values.integer("classes")),
           static_cast<std::uint64_t>(values.integer("seed")), split,
           {.train_samples = values.integer("train_samples"), .test_samples = values.integer("test_samples")});
     }});

}  // namespace

}  // namespace trifold
