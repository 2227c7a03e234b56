// Runs one op on one backend from row-major tensors to row-major tensors, as a Program would: layouts chosen by the
// backend, aligned buffers, scratch. Every buffer stands between guard bytes; a kernel that writes outside throws.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace trifold::test {

struct HostTensor {
  TensorDesc desc;      // layout: what the producer chose. `data` is row-major all the same.
  bool opaque = false;  // bits in the backend's own order: never converted
  std::vector<std::byte> data = {};

  template <class T = float>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T = float>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  double number(std::size_t index) const;  // any dtype
};

struct OpOutput {
  TensorDesc desc;
  bool opaque = false;
  int updates = -1;  // the input whose memory it is: a value updated where it lies
};

struct OpRun {
  const Backend& backend;
  Device* device = &host_device();
  StepContext context = {};
  bool strict_math = false;
  bool in_place = false;  // outputs take over the memory of inputs wherever the op allows it
};

// The outputs carry the layouts that the backend chose.
std::vector<HostTensor> run_op(const OpRun& run, const Op& op, std::span<const HostTensor> in,
                               std::span<const OpOutput> out);

}  // namespace trifold::test
