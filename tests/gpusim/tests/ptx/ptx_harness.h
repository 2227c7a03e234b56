// Runs kernels from PTX text on the engine alone: no CUDA runtime, no nvcc. Buffers are device memory that the test
// reads and writes through the simulator's own view.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/device_memory.h"
#include "engine/report.h"
#include "ptx/kernel.h"

namespace gpusim::test {

// A whole module with one kernel `k`; `body` begins with its declarations.
inline std::string kernel_text(const std::string& parameters, const std::string& body,
                               const std::string& target = "sm_80", const std::string& module_level = "") {
  return ".version 8.0\n.target " + target + "\n.address_size 64\n" + module_level + "\n.visible .entry k(" +
         parameters + ")\n{\n" + body + "\n}\n";
}

template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count), memory_(DeviceMemory::get().allocate(0, count * sizeof(T))) {}
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) { write(values); }
  ~Buffer() {
    if (memory_ != nullptr) DeviceMemory::get().release(memory_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Address address() const { return reinterpret_cast<Address>(memory_); }
  void write(const std::vector<T>& values) {
    std::memcpy(DeviceMemory::get().translate(address()), values.data(), values.size() * sizeof(T));
    DeviceMemory::get().mark_written(address(), values.size() * sizeof(T));
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    std::memcpy(values.data(), DeviceMemory::get().translate(address()), count_ * sizeof(T));
    return values;
  }
  void free() {
    DeviceMemory::get().release(memory_);
    memory_ = nullptr;
  }

 private:
  std::size_t count_;
  void* memory_;
};

struct LaunchSize {
  Dim3 grid;
  Dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  GpusimLaunch* statistics = nullptr;
  bool cooperative = false;
};

// Arguments are passed by value, in the order and with the sizes of the kernel's parameters.
template <class... Arguments>
bool run(PtxModule& module, const LaunchSize& size, Arguments... arguments) {
  PtxKernel* kernel = find_kernel(module, "k");
  if (kernel == nullptr) throw std::runtime_error("no kernel k");
  void* pointers[] = {static_cast<void*>(&arguments)..., nullptr};
  const std::vector<std::byte> block = pack_arguments(*kernel, pointers);
  return run_kernel(*kernel, {.grid = size.grid,
                              .block = size.block,
                              .dynamic_shared_bytes = size.dynamic_shared_bytes,
                              .parameters = block,
                              .statistics = size.statistics,
                              .cooperative = size.cooperative});
}
template <class... Arguments>
bool run(const std::string& text, const LaunchSize& size, Arguments... arguments) {
  return run(*load_module(text, 0), size, arguments...);
}

// What was reported while `body` ran.
struct Reports {
  int count = 0;
  Finding last = Finding::unsupported;
};
template <class Body>
Reports reports_of(Body body) {
  const int before = report_count();
  body();
  Reports result;
  result.count = report_count() - before;
  if (result.count > 0) result.last = last_finding();
  return result;
}

// The text of the PtxError that `body` throws; empty: none.
template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const PtxError& error) {
    return error.text;
  }
  return {};
}

}  // namespace gpusim::test
