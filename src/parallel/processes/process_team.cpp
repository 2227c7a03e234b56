#include "parallel/processes/process_team.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parallel/processes/line_socket.h"
#include "runtime/core/error.h"

namespace trifold {
namespace {

using TeamClock = std::chrono::steady_clock;

// What the team waits for, instead of being ended by it.
sigset_t team_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD}) ::sigaddset(&signals, signal);
  return signals;
}

// This process's environment. What mpirun or srun gave it would make every process of the team its one process.
std::vector<std::string> team_environment() {
  std::vector<std::string> variables;
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto begins = [&](const char* name) { return text.starts_with(name); };
    if (begins("OMPI_") || begins("PMIX_") || begins("RANK=") || begins("WORLD_SIZE=") || begins("MASTER_")) continue;
    variables.emplace_back(text);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string to_string(const ProcessEnd& end) {
  if (end.exit_code >= 0) return fmt::format("ended with exit code {}", end.exit_code);
  return fmt::format("was killed by signal {} ({})", end.signal, ::strsignal(end.signal));
}

ProcessTeam::ProcessTeam(Args args) : args_(std::move(args)) {
  const sigset_t signals = team_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  // A port that is free now; a new one for every team, so that nobody meets what another has left.
  const int port = args_.processes > 1 ? LineListener({.port = 0, .this_machine_only = true}).port() : 0;
  for (int process = 0; process < args_.processes; ++process) start(process, port);
}

ProcessTeam::~ProcessTeam() {
  signal_all(SIGKILL);
  for (const int process : processes_)
    if (process > 0) ::waitpid(process, nullptr, 0);
  const sigset_t signals = team_signals();
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

void ProcessTeam::start(int process, int port) {
  std::vector<std::string> words = args_.command;
  std::vector<std::string> variables = team_environment();
  if (args_.processes > 1)
    for (std::string& variable :
         std::vector<std::string>{fmt::format("RANK={}", process), fmt::format("WORLD_SIZE={}", args_.processes),
                                  "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port)})
      variables.push_back(std::move(variable));
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> environment = pointers_to(variables);
  const sigset_t signals = team_signals();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail_runtime("cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    ::setpgid(0, 0);  // Ctrl-C reaches the team alone, which passes it on once
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    // A script's background job is born deaf to Ctrl-C. What the team passes on is meant.
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
    if (::getppid() != parent) ::_exit(127);
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    ::execve(argv[0], argv.data(), environment.data());
    ::_exit(127);
  }
  processes_.push_back(child);
}

bool ProcessTeam::running() const {
  return std::ranges::any_of(processes_, [](int process) { return process > 0; });
}

void ProcessTeam::signal_all(int signal) const {
  for (const int process : processes_)
    if (process > 0) ::kill(process, signal);
}

void ProcessTeam::pass_on(int signal) {
  if (signal == SIGTSTP) {  // Ctrl-Z
    signal_all(SIGSTOP);
    ::raise(SIGSTOP);
    signal_all(SIGCONT);
    return;
  }
  end_.interrupt = signal;
  signal_all(signal == SIGHUP ? SIGTERM : signal);  // the terminal is gone: there is still time to save
}

void ProcessTeam::collect() {
  const auto seen = std::ssize(end_.ends);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    int status = 0;
    if (processes_[i] < 0 || ::waitpid(processes_[i], &status, WNOHANG) != processes_[i]) continue;
    processes_[i] = -1;
    ProcessEnd end{.process = static_cast<int>(i)};
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (end.failed()) failed_at_ = std::min(failed_at_, TeamClock::now());
    if (!killing_ || end.signal != SIGKILL) end_.ends.push_back(end);
  }
  // Of those that were seen together, one that was killed died first: others die of its death, not the other way round.
  std::ranges::stable_partition(end_.ends.begin() + seen, end_.ends.end(),
                                [](const ProcessEnd& end) { return end.signal != 0; });
}

TeamEnd ProcessTeam::wait() {
  constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 200'000'000};
  const sigset_t signals = team_signals();
  while (running()) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kTick);
    if (signal > 0 && signal != SIGCHLD) pass_on(signal);
    collect();
    if (!killing_ && failed_at_ < TeamClock::now() - args_.grace) {
      killing_ = true;
      signal_all(SIGKILL);
    }
  }
  return end_;
}

}  // namespace trifold
