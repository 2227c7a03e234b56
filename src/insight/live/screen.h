// The whole screen of a terminal, by ncurses: the only file that knows of it. One thread uses it, from its construction
// to its destruction, which leaves the terminal as it was.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "insight/live/live_format.h"

namespace trifold {

class Screen {
 public:
  // Why there can be none: a sentence for the user, or nothing. Standard input and output must be a terminal that is
  // this process's to use.
  static std::optional<std::string> why_not();

  Screen();  // throws where the terminal cannot be drawn on
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  LiveSize size() const;
  void draw(const std::vector<LiveLine>& lines);
  // Waits at most so long for a key: 0 for none. Returns at once when the window has changed its size.
  int wait_for_key(int milliseconds);
  // What was written to standard error meanwhile.
  std::string said();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trifold
