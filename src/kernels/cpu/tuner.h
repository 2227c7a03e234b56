// Chooses the fastest of several kernels for one op by measuring them, once per machine: results are kept in memory and
// in a file of JSON lines that several processes may append to. A file that cannot be read or written is no error.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace trifold::cpu {

struct TuneCandidate {
  std::string name;               // what the cache remembers the winner by: unique among the candidates
  std::function<void()> prepare;  // once, before its first run, and only if it is measured at all
  std::function<void()> run;
};

struct TunerOptions {
  std::optional<std::filesystem::path> cache_file;  // none: memory only
  std::string machine;                              // part of every key: processor, instruction set, libraries
  bool measure = true;                              // false: always the first candidate
  std::function<double()> clock_s;                  // seconds, monotonic
};

class Tuner {
 public:
  explicit Tuner(TunerOptions options);

  // Index of the candidate to use. One alone, or without measuring: the first; so candidates come in the order of
  // expected speed. Ranks in one process take turns, so that they do not disturb each other's measurements.
  std::size_t choose(const std::string& key, std::span<const TuneCandidate> candidates);

 private:
  void load();
  void append(const std::string& key, const std::string& winner, double best_s) const;
  double measure(const TuneCandidate& candidate, double best_so_far_s) const;

  TunerOptions options_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::map<std::string, std::string> winners_;  // by key
};

// $TRIFOLD_CACHE/tuning.jsonl, else $XDG_CACHE_HOME/trifold/..., else ~/.cache/trifold/...; none without a home.
std::optional<std::filesystem::path> tuning_file();

// The process's tuner: of this machine and tuning_file(). TRIFOLD_TUNE=0 switches measuring off.
Tuner& machine_tuner();

// The fastest of the candidates for this request, by the tuner, on dummy data. There must be at least one.
KernelPtr fastest_kernel(Tuner& tuner, const KernelRequest& request, std::vector<KernelPtr> candidates);

}  // namespace trifold::cpu
