#include "core/terminal_guard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace trifold {
namespace {

constexpr off_t kMostKept = off_t{1} << 20;  // bytes of standard error

constexpr std::array kEnding = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGHUP};

// Read by signal handlers, so without pointers and locks. Written before `taken` is set.
struct Taken {
  int terminal = -1;
  bool has_settings = false;
  termios settings = {};
  char leaving[TerminalGuard::kMostBytes] = {};
  std::atomic<std::size_t> leaving_bytes = 0;
  int standard_error = -1;  // the real one, while it is kept back
  int kept = -1;            // memory that stands in for it
  struct sigaction before[kEnding.size()] = {};
};

Taken taken_terminal;
std::atomic<bool> taken = false;

void write_all(int descriptor, const char* data, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, data, bytes);
    if (written <= 0) return;
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void release_standard_error() noexcept {
  if (taken_terminal.kept < 0) return;
  ::dup2(taken_terminal.standard_error, STDERR_FILENO);
  char buffer[4096];
  off_t at = 0;
  for (ssize_t got = 0; (got = ::pread(taken_terminal.kept, buffer, sizeof(buffer), at)) > 0; at += got)
    write_all(STDERR_FILENO, buffer, static_cast<std::size_t>(got));
  ::close(taken_terminal.kept);
  ::close(taken_terminal.standard_error);
  taken_terminal.kept = taken_terminal.standard_error = -1;
}

void on_ending(int signal) {
  restore_terminal();
  for (std::size_t i = 0; i < kEnding.size(); ++i)
    if (kEnding[i] == signal) ::sigaction(signal, &taken_terminal.before[i], nullptr);
  ::raise(signal);
}

}  // namespace

TerminalGuard::TerminalGuard(int descriptor) {
  taken_terminal.terminal = descriptor;
  taken_terminal.has_settings = ::tcgetattr(descriptor, &taken_terminal.settings) == 0;
  taken_terminal.leaving_bytes = 0;
  if (::isatty(STDERR_FILENO) != 0) {
    taken_terminal.kept = ::memfd_create("standard error", MFD_CLOEXEC);
    if (taken_terminal.kept >= 0) {
      ::fcntl(taken_terminal.kept, F_SETFL, O_APPEND);
      taken_terminal.standard_error = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
      ::dup2(taken_terminal.kept, STDERR_FILENO);
    }
  }
  taken = true;
  struct sigaction action {};
  action.sa_handler = on_ending;
  action.sa_flags = SA_NODEFER;
  // What is ignored (by nohup, or of a job that a script started in the background) does not end the program.
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    ::sigaction(kEnding[i], nullptr, &taken_terminal.before[i]);
    if (taken_terminal.before[i].sa_handler != SIG_IGN) ::sigaction(kEnding[i], &action, nullptr);
  }
}

TerminalGuard::~TerminalGuard() {
  for (std::size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &taken_terminal.before[i], nullptr);
  if (taken.exchange(false)) release_standard_error();
}

void TerminalGuard::set_leaving(std::string_view sequence) {
  const std::size_t bytes = std::min(sequence.size(), kMostBytes);
  std::memcpy(taken_terminal.leaving, sequence.data(), bytes);
  taken_terminal.leaving_bytes = bytes;
}

std::string TerminalGuard::said() {
  struct stat status {};
  if (taken_terminal.kept < 0 || ::fstat(taken_terminal.kept, &status) != 0) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  std::string text(size > read_to_ ? size - read_to_ : 0, '\0');
  const ssize_t got = ::pread(taken_terminal.kept, text.data(), text.size(), static_cast<off_t>(read_to_));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  read_to_ += text.size();
  // A flood does not fill the memory: its beginning is forgotten.
  if (status.st_size > kMostKept && ::ftruncate(taken_terminal.kept, 0) == 0) read_to_ = 0;
  return text;
}

void restore_terminal() noexcept {
  if (!taken.exchange(false)) return;
  write_all(taken_terminal.terminal, taken_terminal.leaving, taken_terminal.leaving_bytes);
  if (taken_terminal.has_settings) ::tcsetattr(taken_terminal.terminal, TCSADRAIN, &taken_terminal.settings);
  release_standard_error();
}

}  // namespace trifold
