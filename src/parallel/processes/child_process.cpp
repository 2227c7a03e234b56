#include "parallel/processes/child_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {
namespace {

// This process's environment. What mpirun or srun gave it would make every child its one process.
std::vector<std::string> inherited_environment() {
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

ProcessEnd process_end(int wait_status) {
  ProcessEnd end;
  if (WIFEXITED(wait_status)) end.exit_code = WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) end.signal = WTERMSIG(wait_status);
  return end;
}

int start_process(std::vector<std::string> command, const std::vector<std::string>& variables) {
  std::vector<std::string> all_variables = inherited_environment();
  all_variables.insert(all_variables.end(), variables.begin(), variables.end());
  const std::vector<char*> argv = pointers_to(command);
  const std::vector<char*> environment = pointers_to(all_variables);
  sigset_t all_signals;
  ::sigfillset(&all_signals);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail_runtime("cannot start a process: {}", std::strerror(errno));
  if (child > 0) return child;
  // Other threads may hold any lock: nothing but system calls from here on.
  ::setpgid(0, 0);  // Ctrl-C reaches the parent alone, which passes it on once
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // A script's background job is born deaf to Ctrl-C. What the parent passes on is meant.
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
  if (::getppid() != parent) ::_exit(127);
  ::sigprocmask(SIG_UNBLOCK, &all_signals, nullptr);
  ::execve(argv[0], argv.data(), environment.data());
  ::_exit(127);
}

ChildProcess::~ChildProcess() {
  if (id_ < 0 || end_) return;
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

const std::optional<ProcessEnd>& ChildProcess::poll() {
  int status = 0;
  if (!end_ && ::waitpid(id_, &status, WNOHANG) == id_) end_ = process_end(status);
  return end_;
}

void ChildProcess::signal(int signal) const {
  if (id_ > 0 && !end_) ::kill(id_, signal);
}

}  // namespace trifold
