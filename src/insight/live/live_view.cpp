#include "insight/live/live_view.h"

#include <exception>
#include <optional>

#include <spdlog/spdlog.h>

#include "insight/live/live_sampler.h"
#include "insight/live/screen.h"

namespace trifold {
namespace {

constexpr int kFrame_ms = 100;

sigset_t signals_of_drawing() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGWINCH, SIGTSTP}) ::sigaddset(&signals, signal);
  return signals;
}

}  // namespace

LiveView::LiveView(const LiveBoard& board, std::atomic<bool>& stop) : board_(board), stop_(stop) {
  const sigset_t signals = signals_of_drawing();
  ::pthread_sigmask(SIG_BLOCK, &signals, &signals_before_);
  thread_ = std::thread([this] { draw_until_closed(); });
  has_screen_.wait();
}

LiveView::~LiveView() {
  closing_ = true;
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

// A view that fails is no reason for the run to fail.
void LiveView::draw_until_closed() {
  std::optional<Screen> opened;
  try {
    opened.emplace();
  } catch (const std::exception& error) {
    spdlog::warn("there is no live view: {}", error.what());
  }
  has_screen_.count_down();
  if (!opened) return;
  try {
    const sigset_t signals = signals_of_drawing();
    Screen& screen = *opened;
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    LiveSampler sampler;
    LiveBoard::Reading reading;
    while (!closing_) {
      sampler.heard(screen.said());
      board_.read(reading);
      LiveState state = sampler.sample(reading, board_.run());
      state.stopping = stop_;
      screen.draw(layout_live(state, screen.size()));
      if (const int key = screen.wait_for_key(kFrame_ms); key == 'q' || key == 'Q') stop_ = true;
    }
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  } catch (const std::exception& error) {
    spdlog::warn("the live view ended: {}", error.what());
  }
}

}  // namespace trifold
