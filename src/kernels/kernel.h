// A kernel: one op made ready to run on one backend for exact tensors. Made and bound to memory once, before the first
// step; run() then allocates nothing and takes no locks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "kernels/op.h"

namespace trifold {

class RankGroups;  // parallel/rank_groups.h

// What a kernel is to be made for.
struct KernelRequest {
  const Op& op;
  std::span<const TensorDesc> in;
  std::span<const TensorDesc> out;
  int threads = 1;
  bool strict_math = false;                            // forbid algorithms that lose accuracy (Winograd)
  std::size_t scratch_limit = std::size_t{256} << 20;  // for algorithms that are faster with more: bytes
  Device* device = &host_device();                     // where it will run: one that the backend is for
  const RankGroups* ranks = nullptr;                   // whom collectives reach; null: nobody runs it
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  // Memory it needs while it runs, 64-byte aligned, shared with all other kernels.
  virtual std::size_t scratch_bytes() const { return 0; }
  // Memory that is its own from step to step, of the same alignment; it comes in the place of scratch.
  virtual std::size_t lasting_bytes() const { return 0; }
  virtual std::string implementation() const { return "loop"; }  // for reports: "jit:avx2", "winograd"
  virtual void run(const StepContext& context) = 0;
  // Called before the memory that it is bound to is used anew: returns when no other rank reads it any more.
  virtual void settle() {}

  void bind(std::span<std::byte* const> in, std::span<std::byte* const> out, std::byte* scratch) {
    in_.assign(in.begin(), in.end());
    out_.assign(out.begin(), out.end());
    scratch_ = scratch;
    on_bind();
  }

 protected:
  virtual void on_bind() {}

  template <class T = float>
  const T* in(std::size_t index) const {
    return reinterpret_cast<const T*>(in_[index]);
  }
  template <class T = float>
  T* out(std::size_t index) const {
    return reinterpret_cast<T*>(out_[index]);
  }
  std::byte* scratch() const { return scratch_; }

 private:
  std::vector<std::byte*> in_;
  std::vector<std::byte*> out_;
  std::byte* scratch_ = nullptr;
};

using KernelPtr = std::unique_ptr<Kernel>;
using KernelFactory = KernelPtr (*)(const KernelRequest& request);

}  // namespace trifold
