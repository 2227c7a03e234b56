#include "support/terminal_program.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include "support/paths.h"

namespace trifold::test {

TerminalProgram::TerminalProgram(const Args& args) {
  std::vector<std::string> words = {program_path()};
  words.insert(words.end(), args.arguments.begin(), args.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = {"TERM=xterm-256color", "LC_ALL=C.UTF-8"};
  variables.insert(variables.end(), args.variables.begin(), args.variables.end());

  if (::openpty(&master_, &terminal_, nullptr, nullptr, nullptr) != 0) throw std::runtime_error("no pty");
  resize(args.columns, args.rows);
  process_ = ::fork();
  if (process_ < 0) throw std::runtime_error("no process");
  if (process_ != 0) return;
  ::close(master_);
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) ::signal(signal, SIG_DFL);  // a script's children ignore some
  if (args.ignored_signal != 0) ::signal(args.ignored_signal, SIG_IGN);
  ::unsetenv("NO_COLOR");
  for (std::string& variable : variables) ::putenv(variable.data());
  if (::login_tty(terminal_) == 0 && ::chdir(args.directory.c_str()) == 0) ::execv(argv[0], argv.data());
  ::_exit(127);
}

TerminalProgram::~TerminalProgram() {
  if (running()) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, &status_, 0);
  }
  ::close(master_);
  ::close(terminal_);
}

bool TerminalProgram::running() {
  if (!ended_) ended_ = ::waitpid(process_, &status_, WNOHANG) == process_;
  return !ended_;
}

// Waits a little; false: there was nothing.
bool TerminalProgram::read_some() {
  pollfd waiting{.fd = master_, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, 20) <= 0) return false;
  char buffer[8192];
  const ssize_t got = ::read(master_, buffer, sizeof(buffer));
  if (got <= 0) return false;
  output_.append(buffer, static_cast<std::size_t>(got));
  return true;
}

bool TerminalProgram::draws(const std::string& text, std::size_t from, std::chrono::seconds patience) {
  return draws([&](const std::string& output) { return output.find(text, from) != std::string::npos; }, patience);
}

bool TerminalProgram::draws(const std::function<bool(const std::string& output)>& wanted,
                            std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!wanted(output_)) {
    const bool was_running = running();
    if (!read_some() && (!was_running || std::chrono::steady_clock::now() > deadline)) return false;
  }
  return true;
}

int TerminalProgram::end(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (running()) {
    read_some();
    if (std::chrono::steady_clock::now() > deadline) ::kill(process_, SIGKILL);
  }
  while (read_some()) {
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

void TerminalProgram::type(const std::string& keys) const {
  if (::write(master_, keys.data(), keys.size()) < 0) throw std::runtime_error("cannot type");
}

void TerminalProgram::resize(int columns, int rows) const {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  ::ioctl(master_, TIOCSWINSZ, &size);  // which sends SIGWINCH
}

void TerminalProgram::send(int signal) const {
  ::kill(process_, signal);
}

termios TerminalProgram::settings() const {
  termios settings{};
  if (::tcgetattr(terminal_, &settings) != 0) throw std::runtime_error("no settings");
  return settings;
}

bool same(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag &&
         std::equal(std::begin(a.c_cc), std::end(a.c_cc), std::begin(b.c_cc));
}

}  // namespace trifold::test
