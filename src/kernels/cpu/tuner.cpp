#include "kernels/cpu/tuner.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/dummy_memory.h"
#include "core/error.h"
#include "core/processor.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/cpu/thread_scope.h"

namespace trifold::cpu {
namespace {

// A candidate gets one warm-up and at least kRuns runs unless they are long; short ones go on until kShort_s is spent,
// because a scheduler's interruption is then as long as several runs. The whole is a user's first wait: a small network
// is tuned within half a second.
constexpr int kRuns = 2;
constexpr int kMaxRuns = 50;
constexpr double kShort_s = 0.005;
constexpr double kLong_s = 0.5;
constexpr int kOwnKernels = 1;          // part of every key: raise it when our own kernels change in speed
constexpr double kHopeless = 2.0;       // times the best so far: not worth a second run
constexpr double kHopelessStart = 8.0;  // the same of the warm-up, which also pays for first touches of memory

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TunerOptions machine_options() {
  const char* tune = std::getenv("TRIFOLD_TUNE");
  return {.cache_file = tuning_file(),
          .machine = fmt::format("{} {} onednn {} own {}", processor_name(), isa_name(active_isa()), onednn_version(),
                                 kOwnKernels),
          .measure = tune == nullptr || std::string_view(tune) != "0",
          .clock_s = steady_seconds};
}

std::string key_of(const KernelRequest& request) {
  std::string key =
      fmt::format("{} threads {}{}", to_string(request.op), request.threads, request.strict_math ? " strict" : "");
  for (const TensorDesc& tensor : request.in) key += fmt::format(" <{}", to_string(tensor));
  for (const TensorDesc& tensor : request.out) key += fmt::format(" >{}", to_string(tensor));
  return key;
}

}  // namespace

Tuner::Tuner(TunerOptions options) : options_(std::move(options)) {
  TRIFOLD_CHECK(!options_.measure || options_.clock_s, "a tuner that measures needs a clock");
}

std::size_t Tuner::choose(const std::string& key, std::span<const TuneCandidate> candidates) {
  TRIFOLD_CHECK(!candidates.empty(), "nothing to choose from for {}", key);
  if (candidates.size() == 1 || !options_.measure) return 0;

  const std::lock_guard lock(mutex_);
  if (!loaded_) load();
  const std::string full_key = options_.machine + " | " + key;
  if (const auto known = winners_.find(full_key); known != winners_.end()) {
    const auto winner = std::ranges::find(candidates, known->second, &TuneCandidate::name);
    if (winner != candidates.end()) return static_cast<std::size_t>(winner - candidates.begin());
  }

  std::size_t best = 0;
  double best_s = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const double elapsed_s = measure(candidates[i], best_s);
    if (elapsed_s < best_s) {
      best = i;
      best_s = elapsed_s;
    }
  }
  winners_[full_key] = candidates[best].name;
  append(full_key, candidates[best].name, best_s);
  return best;
}

double Tuner::measure(const TuneCandidate& candidate, double best_so_far_s) const {
  if (candidate.prepare) candidate.prepare();
  const double warm_up_start_s = options_.clock_s();
  candidate.run();
  const double warm_up_s = options_.clock_s() - warm_up_start_s;
  if (warm_up_s > kHopelessStart * best_so_far_s) return warm_up_s;
  double best_s = std::numeric_limits<double>::infinity();
  double spent_s = 0;
  for (int run = 0; run < kMaxRuns; ++run) {
    if (run >= kRuns && spent_s >= kShort_s) break;
    if (run > 0 && (spent_s >= kLong_s || best_s > kHopeless * best_so_far_s)) break;
    const double start_s = options_.clock_s();
    candidate.run();
    const double elapsed_s = options_.clock_s() - start_s;
    best_s = std::min(best_s, elapsed_s);
    spent_s += elapsed_s;
  }
  return best_s;
}

void Tuner::load() {
  loaded_ = true;
  if (!options_.cache_file) return;
  std::ifstream file(*options_.cache_file);
  for (std::string line; std::getline(file, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;  // torn, or not ours
    const auto key = entry.find("key");
    const auto winner = entry.find("winner");
    if (key == entry.end() || winner == entry.end() || !key->is_string() || !winner->is_string()) continue;
    winners_[key->get<std::string>()] = winner->get<std::string>();
  }
}

void Tuner::append(const std::string& key, const std::string& winner, double best_s) const {
  if (!options_.cache_file) return;
  std::error_code ignored;
  std::filesystem::create_directories(options_.cache_file->parent_path(), ignored);
  // A leading newline keeps this line whole where another process left a torn one; blank lines are ignored.
  const nlohmann::json entry = {{"key", key}, {"winner", winner}, {"ms", best_s * 1e3}};
  const std::string line = fmt::format("\n{}\n", entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const int file = ::open(options_.cache_file->c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
  ::close(file);
}

std::optional<std::filesystem::path> tuning_file() {
  const auto from_environment = [](const char* name) -> std::optional<std::filesystem::path> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::filesystem::path(value);
  };
  if (const auto cache = from_environment("TRIFOLD_CACHE")) return *cache / "tuning.jsonl";
  if (const auto cache = from_environment("XDG_CACHE_HOME")) return *cache / "trifold" / "tuning.jsonl";
  if (const auto home = from_environment("HOME")) return *home / ".cache" / "trifold" / "tuning.jsonl";
  return std::nullopt;
}

Tuner& machine_tuner() {
  static Tuner tuner(machine_options());
  return tuner;
}

KernelPtr fastest_kernel(Tuner& tuner, const KernelRequest& request, std::vector<KernelPtr> candidates) {
  const ThreadScope scope(request.threads);
  std::vector<AlignedMemory> buffers;
  std::vector<std::byte*> in, out;
  const auto prepare = [&](Kernel& kernel) {
    if (buffers.empty()) {
      for (const TensorDesc& tensor : request.in)
        in.push_back(buffers.emplace_back(dummy_memory(tensor.bytes())).data());
      for (const TensorDesc& tensor : request.out)
        out.push_back(buffers.emplace_back(dummy_memory(tensor.bytes())).data());
      std::size_t scratch_bytes = 0;
      for (const KernelPtr& candidate : candidates) scratch_bytes = std::max(scratch_bytes, candidate->scratch_bytes());
      buffers.push_back(dummy_memory(scratch_bytes));
    }
    kernel.bind(in, out, buffers.back().data());
  };

  std::vector<TuneCandidate> choices;
  std::set<std::string> names;
  for (const KernelPtr& candidate : candidates) {
    Kernel& kernel = *candidate;
    TRIFOLD_CHECK(names.insert(kernel.implementation()).second, "two candidates named {} for {}",
                  kernel.implementation(), to_string(request.op));
    choices.push_back({kernel.implementation(), [&] { prepare(kernel); }, [&] { kernel.run({}); }});
  }
  return std::move(candidates[tuner.choose(key_of(request), choices)]);
}

}  // namespace trifold::cpu
