// What this machine can do at most, measured: how fast it multiplies matrices, streams memory, starts a kernel's
// threads and adds up between ranks. Kept in a file, since measuring takes a second.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trifold {

struct MachineRoofs {
  struct AllReduce {
    std::int64_t bytes = 0;
    double gbps = 0;  // bytes by time, between as many ranks as threads

    bool operator==(const AllReduce&) const = default;
  };

  std::string machine = {};                // processor and instruction set
  int threads = 1;                         // that all figures are of
  double fp32_gflops = 0;                  // product of matrices of 1024 x 1024
  double bf16_gflops = 0;                  // 0: the processor has none
  double memory_gbps = 0;                  // y += x, far larger than the caches
  double cache_gbps = 0;                   // the same in each core's second-level cache
  double launch_us = 0;                    // of a kernel that does nothing on all threads
  double cache_bytes = 0;                  // second-level caches together
  std::vector<AllReduce> all_reduce = {};  // none of one thread

  bool operator==(const MachineRoofs&) const = default;
};

MachineRoofs measure_roofs(int threads);

// Of two measurements of the same machine the better figures: other programs only ever make them worse.
MachineRoofs better_of(MachineRoofs a, const MachineRoofs& b);

// Those that `file` holds of this machine and as many threads; else, or `anew`, measured, and the better ones kept
// there. A file that cannot be read or written is no error.
MachineRoofs roofs_of_machine(int threads, const std::optional<std::filesystem::path>& file, bool anew = false);
std::optional<std::filesystem::path> roofs_file();  // beside the tuner's; none without a home

std::string to_text(const MachineRoofs& roofs);
std::string to_json_text(const MachineRoofs& roofs);
std::optional<MachineRoofs> parse_roofs(const std::string& json_text);

}  // namespace trifold
