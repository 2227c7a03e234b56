#include "insight/metrics/tensorboard_writer.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {
namespace {

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory, std::optional<std::int64_t> resumed_at) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) fail_runtime("cannot create '{}': {}", directory.string(), error.message());

  // TensorBoard reads a run's files in the order of their names, and a run may resume within the second it stopped in:
  // the next free second is taken.
  const double now_s = wall_time_s();
  const std::string host = host_name();
  for (auto second = static_cast<std::int64_t>(now_s); !descriptor_.is_open(); ++second) {
    file_ = directory / fmt::format("events.out.tfevents.{:010}.{}", second, host);
    descriptor_ = FileDescriptor(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!descriptor_.is_open() && errno != EEXIST) {
      fail_runtime("cannot create '{}': {}", file_.string(), system_reason(errno));
    }
  }
  write_record(encode_version_event(now_s));
  if (resumed_at) write_record(encode_restart_event({.wall_time_s = now_s, .step = *resumed_at + 1}));
}

void TensorboardWriter::write(std::int64_t step, std::span<const Metric> metrics) {
  write_record(encode_scalars_event({.wall_time_s = wall_time_s(), .step = step}, metrics));
}

void TensorboardWriter::write(std::int64_t step, std::span<const NamedHistogram> histograms) {
  write_record(encode_histograms_event({.wall_time_s = wall_time_s(), .step = step}, histograms));
}

void TensorboardWriter::write(std::int64_t step, std::span<const NamedImage> images) {
  write_record(encode_images_event({.wall_time_s = wall_time_s(), .step = step}, images));
}

void TensorboardWriter::write_record(const std::string& payload) {
  const std::string record = frame_record(payload);
  write_all(descriptor_, std::as_bytes(std::span(record)), file_);
}

}  // namespace trifold
