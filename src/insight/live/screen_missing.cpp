// Stands in for screen.cpp in a build without ncurses.
#include "core/error.h"
#include "insight/live/screen.h"

namespace trifold {

struct Screen::Impl {};

std::optional<std::string> Screen::why_not() {
  return "this build has no ncurses (the package is libncurses-dev)";
}

Screen::Screen() {
  fail_input("--live: {}", *why_not());
}
Screen::~Screen() = default;

LiveSize Screen::size() const {
  return {};
}
void Screen::draw(const std::vector<LiveLine>&) {}
int Screen::wait_for_key(int) {
  return 0;
}
std::string Screen::said() {
  return {};
}

}  // namespace trifold
