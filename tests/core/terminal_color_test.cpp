// When there is colour: the whole table of what decides it.
#include "core/terminal_color.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(TerminalColor, OnlyOnATerminalThatCanAndMay) {
  struct Decision {
    TerminalFacts facts;
    bool redraws;
    bool colors;
  };
  const Decision decisions[] = {
      {{.is_terminal = true, .no_color = nullptr, .term = "xterm-256color"}, true, true},
      {{.is_terminal = true, .no_color = "", .term = "xterm"}, true, true},  // set but empty does not count
      {{.is_terminal = true, .no_color = "1", .term = "xterm"}, true, false},
      {{.is_terminal = true, .no_color = "0", .term = "xterm"}, true, false},  // whatever its value
      {{.is_terminal = true, .no_color = nullptr, .term = "dumb"}, false, false},
      {{.is_terminal = true, .no_color = nullptr, .term = ""}, false, false},
      {{.is_terminal = true, .no_color = nullptr, .term = nullptr}, false, false},
      {{.is_terminal = false, .no_color = nullptr, .term = "xterm"}, false, false},
      {{.is_terminal = false, .no_color = "1", .term = "dumb"}, false, false},
  };
  for (const Decision& each : decisions) {
    EXPECT_EQ(can_redraw(each.facts), each.redraws);
    EXPECT_EQ(wants_color(each.facts), each.colors);
  }
}

TEST(TerminalColor, PaintsOnlyWhereItMay) {
  EXPECT_EQ(paint("best", Tone::good, true), "\x1b[32mbest\x1b[0m");
  EXPECT_EQ(paint("mind", Tone::warning, true), "\x1b[33mmind\x1b[0m");
  EXPECT_EQ(paint("oh", Tone::error, true), "\x1b[31moh\x1b[0m");
  EXPECT_EQ(paint("text", Tone::plain, true), "text");
  EXPECT_EQ(paint("best", Tone::good, false), "best");
}

}  // namespace
}  // namespace trifold
