// Shows a long job to the person who waits for it: a bar redrawn in place on a terminal, else plain lines now and then.
// For standard error, which scripts may close or redirect: a failed write is not an error of the job.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "insight/metrics/progress_format.h"

namespace trifold {

// Where progress goes. Tests put their own in place of standard error.
struct ProgressOutput {
  std::function<void(std::string_view)> write;
  std::function<int()> columns;  // 0: not a terminal. Asked at every redraw, since windows are resized.

  static ProgressOutput standard_error();
};

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  struct Args {
    Clock::duration redraw_interval = std::chrono::milliseconds(100);  // on a terminal
    Clock::duration line_interval = std::chrono::seconds(10);          // elsewhere
    ProgressOutput output = ProgressOutput::standard_error();
  };

  explicit Progress(Args args);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;
  ~Progress();

  // Cheap when it is not yet time to show something again.
  void update(const ProgressState& state, Clock::time_point now = Clock::now());

  // A line that stays, such as an epoch's result.
  void say(std::string_view line);

  // Shows the last state and leaves the cursor on a fresh line.
  void finish();

 private:
  void show();

  Args args_;
  ProgressState state_;
  Clock::time_point shown_at_{};
  bool shown_once_ = false;
  bool unshown_ = false;  // state_ is newer than what is shown
  bool on_terminal_ = false;
  bool bar_drawn_ = false;  // the cursor is at the end of a bar
};

}  // namespace trifold
