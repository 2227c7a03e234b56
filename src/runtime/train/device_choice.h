// From the job's plan.device to a backend and a device.
#pragma once

#include <string>

#include "kernels/backend.h"

namespace trifold {

struct DeviceChoice {
  const Backend* backend = nullptr;
  Device* device = nullptr;
};

// "cpu", "cuda", "cuda:1"; "auto": the first GPU where there is one, else the CPU. Throws Error when it is not there.
// own_kernels: convolutions of a GPU by our own kernels.
DeviceChoice choose_device(const std::string& name, bool own_kernels);

}  // namespace trifold
