// From the job's plan.device to backends and devices. Every rank of a plan has a GPU of its own.
#pragma once

#include <string>

#include "kernels/backend.h"

namespace trifold {

struct DeviceChoice {
  const Backend* backend = nullptr;
  Device* device = nullptr;
};

// "cpu", "cpu:4", "cuda", "cuda:2", "cuda#1"; "auto": GPUs where there are any, else the CPU. `gpu` is the one to take
// where the name leaves it open. Throws Error when it is not there. own_kernels: convolutions of a GPU by our own
// kernels.
DeviceChoice choose_device(const std::string& name, bool own_kernels, int gpu = 0);

// Whether that would be GPUs. Opens none.
bool chooses_gpus(const std::string& name);

// Refuses a plan whose ranks, all of this process, are more than its GPUs.
void check_gpus(const std::string& name, int ranks);

// The first GPU of a process's ranks; the others have the next ones. It is `place_here` of the `processes_here` on this
// machine. A launcher may show each process its own GPUs only; otherwise they count through the same ones.
struct GpuPlace {
  int place_here = 0;
  int processes_here = 1;
  int ranks_each = 1;
};
int first_gpu_of_process(const std::string& name, const GpuPlace& place);

}  // namespace trifold
