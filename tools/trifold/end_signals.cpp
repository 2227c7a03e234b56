#include "end_signals.h"

#include <csignal>

#include "core/terminal_guard.h"

namespace trifold {
namespace {

std::atomic<bool> asked_to_end{false};

void on_end_signal(int signal) {
  if (!asked_to_end.exchange(true)) return;
  restore_terminal();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

std::atomic<bool>& end_by_signals() {
  std::signal(SIGINT, on_end_signal);
  std::signal(SIGTERM, on_end_signal);
  return asked_to_end;
}

}  // namespace trifold
