#include "live_screen.h"

#include <cstdio>

#include <fmt/format.h>

#include "core/terminal_color.h"
#include "insight/live/screen.h"

namespace trifold {

LiveScreen::LiveScreen(bool wanted, std::atomic<bool>& stop) {
  if (!wanted) return;
  if (const auto reason = Screen::why_not())
    say_no_live(*reason);
  else
    view_.emplace(board_, stop);
}

void say_no_live(std::string_view reason) {
  const std::string sentence = fmt::format("no --live here: {}; showing lines instead", reason);
  fmt::print(stderr, "{}", sentence_for_user(sentence, Tone::warning));
}

}  // namespace trifold
