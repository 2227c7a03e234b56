// A run on one screen, drawn anew some ten times a second by a thread of its own while the run goes on. Key q asks the
// run to stop as Ctrl-C does. The terminal is as it was when this goes, and whatever was said meanwhile is then
// written.
#pragma once

#include <atomic>
#include <csignal>
#include <latch>
#include <thread>

#include "runtime/train/live_board.h"

namespace trifold {

class LiveView {
 public:
  // `stop` becomes true at q, and is shown where something else made it true. Made before the run's own threads, whose
  // signals it must not share: the window's changes and Ctrl-Z belong to the thread that draws. When it is made, what
  // is written to standard error is kept back, by processes that are started, too.
  LiveView(const LiveBoard& board, std::atomic<bool>& stop);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

 private:
  void draw_until_closed();

  const LiveBoard& board_;
  std::atomic<bool>& stop_;
  std::atomic<bool> closing_ = false;
  std::latch has_screen_{1};  // or failed to get one
  sigset_t signals_before_ = {};
  std::thread thread_;
};

}  // namespace trifold
