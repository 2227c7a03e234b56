#include "parallel/processes/process_team.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <sys/wait.h>

#include "parallel/processes/line_socket.h"

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

}  // namespace

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
  std::vector<std::string> variables;
  if (args_.processes > 1)
    variables = {fmt::format("RANK={}", process), fmt::format("WORLD_SIZE={}", args_.processes),
                 "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port)};
  processes_.push_back(start_process(args_.command, variables));
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
    ProcessEnd end = process_end(status);
    end.process = static_cast<int>(i);
    if (end.failed()) failed_at_ = std::min(failed_at_, TeamClock::now());
    if (!killing_ || end.signal != SIGKILL) end_.ends.push_back(end);
  }
  // Of those that were seen together, one that was killed died first: others die of its death, not the other way round.
  std::stable_partition(end_.ends.begin() + seen, end_.ends.end(),
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
