#include "insight/metrics/progress.h"

#include <exception>
#include <utility>

#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/terminal_color.h"

namespace trifold {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

int terminal_columns() {
  if (!can_redraw(facts_of(STDERR_FILENO))) return 0;
  constexpr int kUsualColumns = 80;  // of a terminal that does not say
  struct winsize size {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

}  // namespace

ProgressOutput ProgressOutput::standard_error() {
  const auto write = [](std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
      if (written <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  };
  return {.write = write, .columns = terminal_columns};
}

Progress::Progress(Args args) : args_(std::move(args)) {}

Progress::~Progress() {
  try {
    if (bar_drawn_) args_.output.write("\n");
  } catch (const std::exception& error) {
    spdlog::warn("the progress line could not be ended: {}", error.what());
  }
}

void Progress::update(const ProgressState& state, Clock::time_point now) {
  state_ = state;
  unshown_ = true;
  const Clock::duration interval = on_terminal_ ? args_.redraw_interval : args_.line_interval;
  if (shown_once_ && now - shown_at_ < interval) return;
  shown_at_ = now;
  show();
}

void Progress::say(std::string_view line) {
  const bool bar_was_drawn = bar_drawn_;
  if (bar_was_drawn) args_.output.write(kEraseLine);
  args_.output.write(fmt::format("{}\n", line));
  if (bar_was_drawn) show();
}

void Progress::finish() {
  if (unshown_) show();
  if (bar_drawn_) args_.output.write("\n");
  bar_drawn_ = false;
}

void Progress::show() {
  const int columns = args_.output.columns();
  on_terminal_ = columns > 0;
  if (on_terminal_) {
    // The last column stays free: terminals wrap when it is written.
    args_.output.write(fmt::format("{}{}", kEraseLine, format_progress_bar(state_, columns - 1)));
    bar_drawn_ = true;
  } else {
    args_.output.write(format_progress_line(state_) + '\n');
  }
  shown_once_ = true;
  unshown_ = false;
}

}  // namespace trifold
