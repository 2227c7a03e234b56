// --live of the commands that train: the run on one screen where there is one, and a word on why not where there is
// none.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "insight/live/live_view.h"

namespace trifold {

class LiveScreen {
 public:
  // `stop` becomes true at q. Made before the run's own threads and processes.
  LiveScreen(bool wanted, std::atomic<bool>& stop);

  LiveBoard* board() { return view_ ? &board_ : nullptr; }  // null: nothing is shown

 private:
  LiveBoard board_;
  std::optional<LiveView> view_;
};

void say_no_live(std::string_view reason);

}  // namespace trifold
