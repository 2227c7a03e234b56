// Where the time of a job's training steps goes, kernel by kernel, and how far each is from what this machine can do.
// FLOPs and bytes are the programs'; times are a monotonic clock's around every node, on all ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "insight/profile/gpu_figures.h"
#include "insight/profile/machine_roofs.h"
#include "insight/profile/memory_timeline.h"
#include "parallel/world.h"
#include "runtime/config/job.h"

namespace trifold {

struct Node;

struct ProfileOptions {
  int warmup = 3;  // steps that are not measured
  int steps = 20;
  bool alone = false;                // also run convolutions and matrix products by themselves. Not of GPUs
  std::filesystem::path trace = {};  // where to write a trace for Perfetto; empty: none. Not of GPUs
  const World* world = nullptr;      // of several processes, which all profile at the same time. Not of GPUs
  std::string gpu = {};              // a key of known_gpus(), to hold GPUs against; empty: chosen
};

// The same kernel of one layer in one phase on one rank, over all measured steps.
struct ProfileRow {
  std::string name = {};            // "conv2d.forward"; "copy batch", "wait for data", "idle", "between kernels"
  OpKind kind = OpKind::movement;   // of a kernel
  std::string implementation = {};  // "winograd"
  std::string layer = {};           // "" of what belongs to none
  std::string phase = {};           // see kProfilePhases
  int rank = 0;
  std::int64_t calls = 0;
  double total_ms = 0;
  double min_ms = 0;
  double max_ms = 0;
  double median_ms = 0;    // of one call; of rows put together, the mean of theirs
  double flops = 0;        // of all calls
  double bytes = 0;        // read and written, or sent
  double alone_ms = 0;     // the same of the kernel run by itself; 0: not measured
  double roof_ms = 0;      // what the roofs would allow for all calls; 0: no roof
  std::string bound = {};  // "compute", "memory", "latency", "waiting", "" of what is no kernel
  GpuFigures gpu = {};     // where ranks are GPUs

  double mean_ms() const { return calls == 0 ? 0 : total_ms / static_cast<double>(calls); }
  double gflops() const { return total_ms == 0 ? 0 : flops / total_ms / 1e6; }
  double alone_gflops() const { return alone_ms == 0 ? 0 : flops / static_cast<double>(calls) / alone_ms / 1e6; }
  double alone_percent() const { return median_ms == 0 ? 0 : 100 * alone_ms / median_ms; }  // how fast it is, of alone
  double gbps() const { return total_ms == 0 ? 0 : bytes / total_ms / 1e6; }
  double intensity() const { return bytes == 0 ? 0 : flops / bytes; }
  double roof_percent() const { return total_ms == 0 ? 0 : 100 * roof_ms / total_ms; }
};

// What a profile of GPUs rests on.
struct GpuProfile {
  struct Spec {
    std::string name = {};  // "": not known
    double fp32_gflops = 0, half_gflops = 0, memory_gbps = 0;
  };
  std::string device = {};          // "NVIDIA A100-SXM4-80GB"
  int multiprocessors = 0;          // of it
  bool simulated = false;           // there are no times: all of them are estimates, by the spec
  std::string method = {};          // "CUPTI", "CUDA events"
  std::string why_not_better = {};  // "" of CUPTI
  Spec spec = {};
};

struct Profile {
  std::string job = {};
  std::int64_t batch = 0;
  int ranks = 1;
  int threads = 1;  // of each rank
  int stages = 1;
  int steps = 0;
  double wall_ms = 0;                 // of all measured steps
  double span_us = 0;                 // what noting one span costs
  std::int64_t spans = 0;             // of all ranks
  int processes = 1;                  // that have the ranks
  double clock_us = 0;                // by which times of different processes in the trace may be wrong, at most
  MachineRoofs roofs = {};            // of all cores
  std::vector<ProfileRow> rows = {};  // longest first
  std::vector<ProfileRow> micro_batches = {};  // a row a rank, micro-batch and phase. Not of GPUs
  std::vector<std::string> advice = {};
  std::vector<MemoryTimeline> memory = {};  // of the last step
  std::optional<GpuProfile> gpu = {};       // then `roofs` are empty

  double all_ms() const { return wall_ms * ranks; }
  double attributed() const;  // share of all ranks' time that is in a kernel, a copy or a wait: not between them
  double overhead() const { return spans == 0 ? 0 : static_cast<double>(spans) * span_us / 1e3 / all_ms(); }
};

inline constexpr const char* kProfilePhases[] = {
    "forward", "input gradient", "weight gradient", "update", "communication", "input", "idle", "host"};

const char* phase_name(const Node& node);  // one of these

// In a world process 0 gets the rows of all ranks, the others those of their own.
Profile profile(const Job& job, const ProfileOptions& options);
// The same, where the ranks are GPUs; profile() calls it then.
Profile profile_gpus(const Job& job, const ProfileOptions& options);

// launch: the kernels of a GPU, whatever node launches them. micro_batch: Profile::micro_batches, as they are.
enum class ProfileGroup { none, kernel, layer, phase, rank, micro_batch, launch };
enum class ProfileSort { total, calls, mean, flops, bytes, gflops, gbps, roof };

// Rows that are the same but for what the group leaves out, put together; sorted, largest first (roof: furthest from it
// first).
std::vector<ProfileRow> grouped(const std::vector<ProfileRow>& rows, ProfileGroup group, ProfileSort sort);

// What the numbers support saying.
std::vector<std::string> advice_on(const Profile& profile);

struct ProfileTable {
  ProfileGroup group = ProfileGroup::kernel;
  ProfileSort sort = ProfileSort::total;
  int top = 25;  // rows; 0: all
};
std::string to_text(const Profile& profile, const ProfileTable& table);
std::string to_json_text(const Profile& profile);  // see "What scripts rely on" in DESIGN.md
std::string to_csv_text(const Profile& profile);

// What these say of GPUs; to_text() and the others call them where profile.gpu is.
std::string gpu_to_text(const Profile& profile, const ProfileTable& table);
std::string gpu_to_json_text(const Profile& profile);
std::string gpu_to_csv_text(const Profile& profile);

}  // namespace trifold
