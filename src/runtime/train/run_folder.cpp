#include "runtime/train/run_folder.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

void check_name(const std::string& name) {
  // Also keeps overwriting inside the root.
  if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    fail_input("'{}' cannot name a run: use a file name without '/' that does not begin with '.'", name);
  }
}

// ", it has: a, b, c", for a user who mistyped a name.
std::string runs_in(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(root, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->is_directory(error)) names.push_back(entry->path().filename().string());
  }
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  constexpr std::size_t kShown = 8;
  const bool more = names.size() > kShown;
  names.resize(std::min(names.size(), kShown));
  return fmt::format("; runs there: {}{}", fmt::join(names, ", "), more ? ", ..." : "");
}

bool has_entries(const fs::path& directory) {
  std::error_code error;
  return fs::directory_iterator(directory, error) != fs::directory_iterator();
}

}  // namespace

RunFolder::RunFolder(const Args& args) : path_(args.root / args.name) {
  check_name(args.name);
  switch (args.mode) {
    case RunMode::fresh:
      if (holds_run(path_)) {
        fail_input(
            "'{}' already holds a run: continue it with --resume, replace it with --force, or choose another name",
            path_.string());
      }
      break;
    case RunMode::resume:
      if (!holds_run(path_)) {
        fail_input("there is no run '{}' in '{}' to resume{}", args.name, args.root.string(), runs_in(args.root));
      }
      break;
    case RunMode::overwrite:
      delete_run();
      break;
  }
  for (const fs::path& directory : {checkpoints(), tensorboard()}) {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) fail_runtime("cannot create '{}': {}", directory.string(), error.message());
  }
}

// Empty subfolders are no run: a process that died right after creating them leaves nothing worth keeping.
bool RunFolder::holds_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(job_json(folder), error) || fs::exists(folder / "metrics.jsonl", error) ||
         has_entries(checkpoints(folder)) || has_entries(folder / "tensorboard");
}

void RunFolder::delete_run() const {
  for (const fs::path& entry : {job_json(), metrics_jsonl(), evaluation_json(), checkpoints(), tensorboard(),
                                path_ / "environment.json", path_ / "report.html"}) {
    std::error_code error;
    fs::remove_all(entry, error);
    if (error) fail_runtime("cannot delete '{}': {}", entry.string(), error.message());
  }
}

}  // namespace trifold
