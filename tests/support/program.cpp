#include "support/program.h"

#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/paths.h"

namespace trifold::test {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

RunningProgram::RunningProgram(const Args& args)
    : out_file_(args.directory / (".stdout" + args.label)), err_file_(args.directory / (".stderr" + args.label)) {
  std::vector<std::string> words = args.under;
  words.emplace_back(program_path());
  words.insert(words.end(), args.arguments.begin(), args.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_file_.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_file_.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, args.directory.c_str());
  pid_t process = -1;
  const int error = posix_spawnp(&process, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words[0]);
  process_ = process;
}

RunningProgram::~RunningProgram() {
  if (!running()) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, &status_, 0);
}

bool RunningProgram::running() {
  if (!ended_) ended_ = ::waitpid(process_, &status_, WNOHANG) == process_;
  return !ended_;
}

std::string RunningProgram::output() const {
  return text_of(out_file_);
}

std::string RunningProgram::errors() const {
  return text_of(err_file_);
}

void RunningProgram::send(int signal) const {
  if (!ended_) ::kill(process_, signal);
}

ProgramResult RunningProgram::wait(std::chrono::seconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (running()) {
    if (std::chrono::steady_clock::now() > end) send(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ProgramResult result;
  if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) result.signal = WTERMSIG(status_);
  result.out = text_of(out_file_);
  result.err = text_of(err_file_);
  return result;
}

}  // namespace trifold::test
