// Event bytes against the wire format written out by hand, and event files against TensorBoard's own reader.
#include "insight/metrics/tensorboard_writer.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "insight/metrics/tensorboard_event.h"
#include "runtime/checkpoint/python.h"
#include "runtime/checkpoint/temporary_directory.h"
#include "runtime/data/image.h"

namespace trifold {
namespace {

using namespace std::string_literals;
using testing::read_file;
using testing::TemporaryDirectory;

TEST(TensorboardEvent, VersionEvent) {
  // wall_time 1.5 is 0x3FF8000000000000.
  EXPECT_EQ(encode_version_event(1.5), "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F\x1A\x0D"s + "brain.Event:2");
}

TEST(TensorboardEvent, ScalarsEvent) {
  const std::vector<Metric> metrics{{"loss", 2.0}, {"a", -1.0}};
  EXPECT_EQ(encode_scalars_event({.wall_time_s = 1.5, .step = 300}, metrics),
            "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F"s  // wall_time
            "\x10\xAC\x02"                           // step, as a varint
            "\x2A\x17"                               // summary, 23 bytes
            "\x0A\x0B\x0A\x04loss\x15\x00\x00\x00\x40"
            "\x0A\x08\x0A\x01\x61\x15\x00\x00\x80\xBF"s);
}

TEST(TensorboardEvent, RestartEvent) {
  EXPECT_EQ(encode_restart_event({.wall_time_s = 1.5, .step = 0}),
            "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F\x10\x00\x3A\x02\x08\x01"s);
}

TEST(TensorboardEvent, FrameHasLengthAndMaskedChecksums) {
  const std::string record = frame_record("123456789");
  ASSERT_EQ(record.size(), 8u + 4 + 9 + 4);
  EXPECT_EQ(record.substr(0, 8), "\x09\0\0\0\0\0\0\0"s);
  EXPECT_EQ(record.substr(12, 9), "123456789");
  // The CRC of "123456789" is E3069283: rotated right by 15 it is 2507C60D, plus a282ead8 it is C78AB0E5.
  EXPECT_EQ(record.substr(21), "\xE5\xB0\x8A\xC7"s);
}

TEST(TensorboardWriter, FileNameAndMissingDirectory) {
  const TemporaryDirectory directory;
  const TensorboardWriter writer(directory / "new/tensorboard");
  EXPECT_THAT(writer.file().filename().string(), ::testing::MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\..+"));
  EXPECT_THROW(TensorboardWriter("/proc/nowhere"), Error);
}

TEST(TensorboardWriter, ResumeWithinASecondTakesALaterFile) {
  const TemporaryDirectory directory;
  const TensorboardWriter first(directory.path());
  const TensorboardWriter second(directory.path(), 5);
  EXPECT_LT(first.file(), second.file());
}

TEST(TensorboardWriter, RecordsAreInTheFileAtOnce) {
  const TemporaryDirectory directory;
  TensorboardWriter writer(directory.path());
  const std::size_t before = read_file(writer.file()).size();
  const std::vector<Metric> metrics{{"loss", 2.0}};
  writer.write(1, metrics);
  EXPECT_EQ(read_file(writer.file()).size(),
            before + frame_record(encode_scalars_event({.wall_time_s = 0, .step = 1}, metrics)).size());
}

TEST(TensorboardWriter, TensorboardReadsTheFiles) {
  if (!testing::python_imports("tensorboard.backend.event_processing.event_accumulator")) {
    GTEST_SKIP() << "Python's tensorboard is not installed";
  }
  const TemporaryDirectory directory;
  {
    TensorboardWriter writer(directory.path());
    for (int step = 1; step <= 6; ++step) {
      const std::vector<Metric> metrics{{"train/loss", 1.0 / step}, {"train/images_per_s", 1000.0 + step}};
      writer.write(step, metrics);
    }
  }
  {
    TensorboardWriter writer(directory.path(), 4);
    for (int step = 5; step <= 7; ++step) {
      const std::vector<Metric> metrics{{"train/loss", 10.0 + step}};
      writer.write(step, metrics);
    }
  }
  const auto result = testing::run_python("path = '" + directory.path().string() + R"('
import glob
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
files = sorted(glob.glob(path + '/*'))
events = [list(EventFileLoader(f).Load()) for f in files]
assert [len(e) for e in events] == [7, 5], events
assert events[0][0].file_version == 'brain.Event:2'
assert abs(events[0][1].wall_time - events[0][0].wall_time) < 60
run = EventAccumulator(path)
run.Reload()
loss = [(e.step, e.value) for e in run.Scalars('train/loss')]
expected = [(s, 1.0 / s) for s in (1, 2, 3, 4)] + [(s, 10.0 + s) for s in (5, 6, 7)]
assert len(loss) == len(expected), loss
for (s, v), (t, w) in zip(loss, expected):
    assert s == t and abs(v - w) < 1e-6, loss
assert [e.step for e in run.Scalars('train/images_per_s')] == [1, 2, 3, 4]
)");
  EXPECT_EQ(result.exit_status, 0) << result.output;
}

TEST(TensorboardWriter, TensorboardReadsHistogramsAndImages) {
  if (!testing::python_imports("tensorboard.backend.event_processing.event_accumulator, PIL.Image")) {
    GTEST_SKIP() << "Python's tensorboard or Pillow is not installed";
  }
  const TemporaryDirectory directory;
  {
    TensorboardWriter writer(directory.path());
    std::vector<float> numbers;
    for (int i = 0; i <= 60; ++i)
      numbers.push_back(static_cast<float>(i) / 30 - 1);  // two a bucket, the last has three
    const std::vector<NamedHistogram> histograms{{"weights/a", make_histogram(numbers)},
                                                 {"weights/b", make_histogram(std::vector<float>(5, 0.5f))},
                                                 {"weights/none", make_histogram({})}};
    writer.write(3, histograms);
    const DecodedImage image{.channels = 3, .height = 2, .width = 1, .pixels = {255, 0, 0, 10, 20, 30}};
    const DecodedImage gray{.channels = 1, .height = 1, .width = 2, .pixels = {7, 200}};
    const std::vector<NamedImage> images{
        {.name = "misclassified/01: a as b", .height = 2, .width = 1, .channels = 3, .png = encode_png(image)},
        {.name = "misclassified/02: b as a", .height = 1, .width = 2, .channels = 1, .png = encode_png(gray)}};
    writer.write(4, images);
  }
  const auto result = testing::run_python("path = '" + directory.path().string() + R"('
import glob, io
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader, LegacyEventFileLoader
run = EventAccumulator(path)
run.Reload()
# As TensorBoard shows them today: [left, right, count] of every bucket, and [width, height, PNG].
tensors = {v.tag: (e.step, v) for e in EventFileLoader(glob.glob(path + '/*')[0]).Load() for v in e.summary.value}
assert list(tensors) == ['weights/a', 'weights/b', 'weights/none', 'misclassified/01: a as b', 'misclassified/02: b as a']
from tensorboard.util import tensor_util
step, value = tensors['weights/a']
buckets = tensor_util.make_ndarray(value.tensor)
assert step == 3 and value.metadata.plugin_data.plugin_name == 'histograms', value
assert buckets.shape == (30, 3) and buckets[0, 0] == -1 and buckets[-1, 1] == 1, buckets
assert buckets[:, 2].sum() == 61 and buckets[:, 2].min() >= 1 and buckets[:, 2].max() <= 3, buckets
assert abs(buckets[1:, 0] - buckets[:-1, 1]).max() == 0
assert tensor_util.make_ndarray(tensors['weights/b'][1].tensor).tolist() == [[0.5, 0.5, 5]]
for tag, size, mode, pixel in [('misclassified/01: a as b', (1, 2), 'RGB', (10, 20, 30)),
                               ('misclassified/02: b as a', (2, 1), 'L', 200)]:
    step, value = tensors[tag]
    width, height, png = tensor_util.make_ndarray(value.tensor)[:3]
    image = Image.open(io.BytesIO(png))
    assert step == 4 and (int(width), int(height)) == size == image.size and image.mode == mode, (image, width, height)
    assert image.getpixel((size[0] - 1, size[1] - 1)) == pixel
# The messages as they were written.
values = {v.tag: v for e in LegacyEventFileLoader(glob.glob(path + '/*')[0]).Load() for v in e.summary.value}
histogram = values['weights/a'].histo
assert (histogram.min, histogram.max, histogram.num) == (-1, 1, 61), histogram
assert abs(histogram.sum) < 1e-5 and abs(histogram.sum_squares - sum((i / 30 - 1) ** 2 for i in range(61))) < 1e-4
assert len(histogram.bucket_limit) == len(histogram.bucket) == 30 and histogram.bucket_limit[-1] == 1
assert values['weights/none'].histo.num == 0
assert values['misclassified/01: a as b'].image.colorspace == 3
)");
  EXPECT_EQ(result.exit_status, 0) << result.output;
}

}  // namespace
}  // namespace trifold
