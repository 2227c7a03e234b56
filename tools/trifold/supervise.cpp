#include "supervise.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/terminal_color.h"
#include "parallel/processes/process_team.h"
#include "parallel/rank_placement.h"
#include "runtime/checkpoint/checkpoint.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

constexpr int kRankLost = 3;  // the exit code

// This process's arguments, without those that make it a supervisor, those that say how a run begins, and --live: the
// terminal stays this process's.
std::vector<std::string> arguments_of_job() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  std::string word;
  std::getline(in, word, '\0');  // the program
  while (std::getline(in, word, '\0')) {
    const bool ours = word.starts_with("--restarts") || word.starts_with("--processes");
    if (ours && word.find('=') == std::string::npos) std::getline(in, word, '\0');  // its value
    if (!ours && word != "--resume" && word != "--force" && word != "--live") arguments.push_back(word);
  }
  return arguments;
}

class Supervisor {
 public:
  explicit Supervisor(const Supervision& supervision)
      : given_(supervision), job_json_(RunFolder::job_json(given_.folder)), before_(identity_of(job_json_)) {}

  void run() const {
    RunMode mode = given_.mode;
    for (int restart = 0;; ++restart) {
      ProcessTeam team({.command = command(mode), .processes = given_.processes});
      const TeamEnd end = team.wait();
      const ProcessEnd cause = cause_of(end);
      if (!cause.failed()) return;
      if (end.interrupt != 0) end_like(cause);
      if (cause.exit_code >= 0 && cause.exit_code != kRankLost)
        throw Error(cause.exit_code == 2 ? Fault::input : Fault::runtime, "");
      const std::string what = fmt::format("{} {}", name_of(cause), to_string(cause));
      if (restart == given_.restarts)
        throw Error(Fault::rank_lost, restart == 0 ? what
                                                   : fmt::format("{}; gave up after {} restart{}", what, restart,
                                                                 restart == 1 ? "" : "s"));
      mode = next_mode();
      say(fmt::format("{}; restart {} of {}, {}", what, restart + 1, given_.restarts, where_it_goes_on(mode)));
    }
  }

 private:
  // A file that was replaced is another one, even where it has the number of the old one.
  using Identity = std::tuple<ino_t, time_t, long>;
  static std::optional<Identity> identity_of(const fs::path& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return std::nullopt;
    return Identity{status.st_ino, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
  }

  static void say(const std::string& text) {
    fmt::print(stderr, "{}", sentence_for_user(text, Tone::warning));
    std::fflush(stderr);
  }

  std::vector<std::string> command(RunMode mode) const {
    std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string()};
    for (std::string& argument : arguments_of_job()) words.push_back(std::move(argument));
    if (mode == RunMode::resume) words.emplace_back("--resume");
    if (mode == RunMode::overwrite) words.emplace_back("--force");
    return words;
  }

  // The process whose end is the reason of the others'. Those that lost another one end with 3; one that was killed, or
  // has found the job to be wrong, does so by itself.
  static ProcessEnd cause_of(const TeamEnd& end) {
    const auto first = [&](const auto& is) {
      const auto found = std::ranges::find_if(end.ends, is);
      return found == end.ends.end() ? ProcessEnd{.exit_code = 0} : *found;
    };
    const ProcessEnd by_itself =
        first([](const ProcessEnd& each) { return each.failed() && each.exit_code != kRankLost; });
    return by_itself.failed() ? by_itself : first([](const ProcessEnd& each) { return each.failed(); });
  }

  // After Ctrl-C the user wants no restart; a second one has killed the processes, and now this one.
  [[noreturn]] static void end_like(const ProcessEnd& cause) {
    if (cause.signal != 0) {
      const int signal = cause.signal;
      std::signal(signal, SIG_DFL);
      sigset_t signals;
      ::sigemptyset(&signals);
      ::sigaddset(&signals, signal);
      ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
      std::raise(signal);
    }
    throw Error(cause.exit_code == kRankLost ? Fault::rank_lost : Fault::runtime, "");
  }

  std::string name_of(const ProcessEnd& end) const {
    if (given_.processes == 1) return "the job";
    return name_of_process({.processes = given_.processes, .ranks_each = given_.ranks_each}, end.process);
  }

  // A run that has begun is resumed. One that had not yet replaced the old run begins again.
  RunMode next_mode() const {
    if (given_.mode == RunMode::overwrite)
      return identity_of(job_json_) && identity_of(job_json_) != before_ ? RunMode::resume : RunMode::overwrite;
    return RunFolder::holds_run(given_.folder) ? RunMode::resume : given_.mode;
  }

  std::string where_it_goes_on(RunMode mode) const {
    if (mode == RunMode::resume) {
      const LatestCheckpoint latest = latest_good(RunFolder::checkpoints(given_.folder));
      if (latest.checkpoint)
        return fmt::format("from step {} ({})", latest.checkpoint->state.step, latest.checkpoint->file.string());
    }
    return given_.saves_on_the_way ? "from the beginning: there is no checkpoint yet"
                                   : "from the beginning: train.checkpoint says that this job writes none on its way";
  }

  Supervision given_;
  fs::path job_json_;
  std::optional<Identity> before_;  // the job.json of an old run
};

}  // namespace

void supervise(const Supervision& supervision) {
  Supervisor(supervision).run();
}

}  // namespace trifold
