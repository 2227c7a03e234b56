// runs/<name>/: everything that one run leaves on disk. Opening it never destroys a run unless told to.
#pragma once

#include <filesystem>
#include <string>

namespace trifold {

enum class RunMode {
  fresh,      // refuses a folder that holds a run
  resume,     // refuses a folder that holds none
  overwrite,  // deletes the run in the folder, but nothing that a run does not write
};

class RunFolder {
 public:
  struct Args {
    std::filesystem::path root = "runs";
    std::string name = {};  // a plain file name
    RunMode mode = RunMode::fresh;
  };

  // On return the folder and its subfolders exist.
  explicit RunFolder(const Args& args);

  // Of a folder that need not exist.
  static std::filesystem::path job_json(const std::filesystem::path& folder) { return folder / "job.json"; }
  static std::filesystem::path checkpoints(const std::filesystem::path& folder) { return folder / "checkpoints"; }
  static bool holds_run(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path job_json() const { return job_json(path_); }                   // the resolved job
  std::filesystem::path metrics_jsonl() const { return path_ / "metrics.jsonl"; }      // see metrics_log.h
  std::filesystem::path evaluation_json() const { return path_ / "evaluation.json"; }  // see evaluation_report.h
  std::filesystem::path checkpoints() const { return checkpoints(path_); }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }

 private:
  void delete_run() const;

  std::filesystem::path path_;
};

}  // namespace trifold
