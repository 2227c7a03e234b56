// Event bytes against the wire format written out by hand, and event files against TensorBoard's own reader.
#include "runtime/metrics/tensorboard_writer.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/python.h"
#include "runtime/checkpoint/temporary_directory.h"
#include "runtime/core/error.h"
#include "runtime/metrics/tensorboard_event.h"

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

}  // namespace
}  // namespace trifold
