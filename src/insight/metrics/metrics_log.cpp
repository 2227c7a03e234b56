#include "insight/metrics/metrics_log.h"

#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "core/error.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> step_of(const std::string& line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

// Rewrites the file without the lines that a run resumed at `last_step` must not have.
void drop_lines_after(const fs::path& file, std::int64_t last_step) {
  std::ifstream in(file, std::ios::binary);
  if (!in) fail_input("cannot read '{}'", file.string());
  AtomicFile out(file);
  std::string line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    const bool torn = in.eof();  // the last line, without its newline
    const std::optional<std::int64_t> step = step_of(line);
    if (step && *step <= last_step) {
      out.write(line + '\n');
    } else if (!step && !torn) {
      spdlog::warn("dropped line {} of '{}': it is damaged", number, file.string());
    }
  }
  if (in.bad()) fail_input("cannot read '{}'", file.string());
  out.commit();
}

}  // namespace

std::string to_json_text(const MetricsLine& line) {
  nlohmann::ordered_json object = {{"step", line.step}, {"epoch", line.epoch}, {"phase", line.phase}};
  for (const Metric& metric : line.values) {
    const std::string name(metric.name);
    TRIFOLD_CHECK(!object.contains(name), "two figures named '{}' in one line of metrics", name);
    object[name] = metric.value;  // NaN and infinities are dumped as null
  }
  return object.dump();
}

MetricsLog::MetricsLog(fs::path file, int flags) : file_(std::move(file)) {
  descriptor_ = open_for_writing(file_, O_WRONLY | O_CREAT | O_APPEND | flags);
}

MetricsLog MetricsLog::start(const fs::path& file) {
  return MetricsLog(file, O_TRUNC);
}

MetricsLog MetricsLog::resume(const fs::path& file, std::int64_t step) {
  std::error_code error;
  if (fs::exists(file, error)) drop_lines_after(file, step);
  return MetricsLog(file, 0);
}

void MetricsLog::write(const MetricsLine& line) {
  // One call with the newline: a kill leaves whole lines.
  const std::string text = to_json_text(line) + '\n';
  write_all(descriptor_, std::as_bytes(std::span(text)), file_);
}

}  // namespace trifold
