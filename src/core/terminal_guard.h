// Gives the terminal back, however the program ends. Whoever draws over the whole screen says first how to undo it:
// then a crash, a second Ctrl-C or a process that ends itself leaves a terminal that can be typed on. While the screen
// is taken, standard error goes to memory instead, lest it tear the picture; it is written out when the screen is left.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trifold {

// One at a time.
class TerminalGuard {
 public:
  // Remembers how the terminal of `descriptor` is set now. Only a standard error that is a terminal is kept back.
  explicit TerminalGuard(int descriptor);
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;
  ~TerminalGuard();  // what was said meanwhile is written; the screen is its owner's to leave

  // What to write to leave the full screen in an emergency: at most kMostBytes.
  static constexpr std::size_t kMostBytes = 256;
  void set_leaving(std::string_view sequence);

  // What was written to standard error since the last call.
  std::string said();

 private:
  std::size_t read_to_ = 0;
};

// Leaves the screen, restores the terminal's settings, writes what was kept back. Does nothing where no guard is. Safe
// in signal handlers.
void restore_terminal() noexcept;

}  // namespace trifold
