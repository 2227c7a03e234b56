#include "insight/live/screen.h"

#include <array>
#include <clocale>
#include <cstdio>
#include <string_view>

// Its macros would rename half of the standard library.
#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <termcap.h>
#include <unistd.h>

#include "core/error.h"
#include "core/terminal_guard.h"

namespace trifold {
namespace {

std::string* leaving = nullptr;  // where collect() puts what tputs() sends

int collect(int byte) {
  leaving->push_back(static_cast<char>(byte));
  return byte;
}

// What undoes a full screen on this terminal, in the order in which it is to be written.
std::string leaving_sequence() {
  std::string sequence;
  leaving = &sequence;
  for (const char* name : {"sgr0", "op", "rmkx", "cnorm", "rmcup"}) {
    const char* text = ::tigetstr(name);
    if (text != nullptr && text != reinterpret_cast<const char*>(-1)) ::tputs(text, 1, collect);
  }
  leaving = nullptr;
  return sequence;
}

// Pairs of colours, numbered by tone.
short pair_of(Tone tone) {
  return static_cast<short>(static_cast<int>(tone) + 1);
}

}  // namespace

struct Screen::Impl {
  TerminalGuard guard{STDOUT_FILENO};
  SCREEN* screen = nullptr;
  bool colors = false;
  Glyphs glyphs = Glyphs::ascii;

  Impl() {
    std::setlocale(LC_CTYPE, "");  // ncurses writes in the user's encoding; numbers stay as they are
    if (std::string_view(::nl_langinfo(CODESET)) == "UTF-8") glyphs = Glyphs::unicode;
    // The window's own size, not what LINES and COLUMNS said when the shell began.
    ::use_env(FALSE);
    ::use_tioctl(TRUE);
    screen = ::newterm(nullptr, stdout, stdin);
    if (screen == nullptr) fail_input("this terminal cannot show --live: terminfo does not know how");
    guard.set_leaving(leaving_sequence());
    ::set_term(screen);
    ::cbreak();  // keys without Enter; Ctrl-C stays a signal
    ::noecho();
    ::nonl();
    ::curs_set(0);
    ::keypad(::stdscr, TRUE);
    if (colors_standard_output() && ::has_colors()) {
      colors = true;
      ::start_color();
      ::use_default_colors();
      ::init_pair(pair_of(Tone::good), COLOR_GREEN, -1);
      ::init_pair(pair_of(Tone::warning), COLOR_YELLOW, -1);
      ::init_pair(pair_of(Tone::error), COLOR_RED, -1);
    }
  }
  ~Impl() {
    if (screen == nullptr) return;
    ::endwin();
    ::delscreen(screen);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  attr_t attributes_of(Tone tone) const {
    switch (tone) {
      case Tone::plain:
        return A_NORMAL;
      case Tone::strong:
        return A_BOLD;
      case Tone::faint:
        return A_DIM;
      default:
        return colors ? static_cast<attr_t>(COLOR_PAIR(pair_of(tone))) : A_BOLD;
    }
  }
};

std::optional<std::string> Screen::why_not() {
  const TerminalFacts facts = facts_of(STDOUT_FILENO);
  if (!facts.is_terminal) return "standard output is no terminal";
  if (::isatty(STDIN_FILENO) == 0) return "standard input is no terminal";
  if (!can_redraw(facts)) return "TERM says that this terminal cannot be drawn on";
  if (::tgetent(nullptr, facts.term) != 1 || ::tgetstr("cm", nullptr) == nullptr)
    return fmt::format("terminfo does not know how to draw on TERM={}", facts.term);
  if (::tcgetpgrp(STDOUT_FILENO) != ::getpgrp()) return "this process runs in the background";
  return std::nullopt;
}

Screen::Screen() : impl_(std::make_unique<Impl>()) {}
Screen::~Screen() = default;

// ncurses follows the window only where it also believes LINES and COLUMNS: so it is asked for here, at every drawing.
LiveSize Screen::size() const {
  struct winsize window {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0 &&
      ::is_term_resized(window.ws_row, window.ws_col))
    ::resizeterm(window.ws_row, window.ws_col);
  return {.columns = getmaxx(::stdscr), .rows = getmaxy(::stdscr), .glyphs = impl_->glyphs};
}

void Screen::draw(const std::vector<LiveLine>& lines) {
  ::erase();
  for (std::size_t row = 0; row < lines.size(); ++row) {
    ::move(static_cast<int>(row), 0);
    for (const LiveRunOfText& run : lines[row]) {
      ::attrset(static_cast<int>(impl_->attributes_of(run.tone)));
      ::addstr(run.text.c_str());
    }
  }
  ::attrset(A_NORMAL);
  ::refresh();
}

int Screen::wait_for_key(int milliseconds) {
  ::timeout(milliseconds);
  const int key = ::getch();
  return key == ERR || key == KEY_RESIZE ? 0 : key;
}

std::string Screen::said() {
  return impl_->guard.said();
}

}  // namespace trifold
