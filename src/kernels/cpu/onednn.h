// oneDNN behind a narrow interface: convolutions, fully connected layers and reorders, each one primitive (with the
// reorders it needs before and after) for exact tensors and a number of threads. Only the onednn*.cpp files include its
// headers. Made once, bound to memory once; execute() then allocates nothing of ours.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/tensor.h"
#include "kernels/ops/conv2d.h"

namespace trifold::cpu {

std::string onednn_version();  // "2.6.3"

struct PrimitiveChain;  // onednn_chain.h

// What the three kinds of primitive share: a chain of oneDNN primitives over the caller's buffers and scratch.
class Primitive {
 public:
  Primitive(Primitive&&) noexcept;
  Primitive& operator=(Primitive&&) noexcept;
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;
  ~Primitive();

  const std::string& implementation() const;  // "jit:avx2", "jit:avx2+reorder:w"
  std::size_t scratch_bytes() const;          // 64-byte aligned, holds nothing between calls
  void execute() const;                       // bound before

 protected:
  explicit Primitive(std::unique_ptr<PrimitiveChain> chain);
  void bind_buffers(std::span<const void* const> buffers, std::byte* scratch);

 private:
  std::unique_ptr<PrimitiveChain> chain_;
};

using Pass = ProductPass;
enum class ConvAlgorithm { direct, winograd };

// Which tensors oneDNN may want in another layout than ours; each that it does is reordered in every execute().
enum class Conversion {
  none,     // all as they are
  weights,  // w or dw
  all,      // every tensor, as oneDNN likes best: it may pad channels
  plain,    // every tensor, to row-major
};

// In backward passes x, w, y stand for dx, dw, dy where that is what the pass reads or writes. In f32, or in bf16 where
// the processor executes it (see bf16.h); gradients of weights and bias, and the bias itself, are in f32 even then.
struct ConvProblem {
  Pass pass = Pass::forward;
  TensorDesc x;  // [N,C,H,W]
  TensorDesc w;  // [O,C/groups,R,S]
  TensorDesc y;  // [N,O,H',W']
  Conv2dArgs args = {};
  bool bias = false;  // forward: added; backward_weights: its gradient too
  bool relu = false;  // forward only
  ConvAlgorithm algorithm = ConvAlgorithm::direct;
  Conversion conversion = Conversion::none;
  bool accept_reference = false;  // take oneDNN's plain loops if there is nothing better
  int threads = 1;
};

// What a pass writes is const here too: oneDNN's handles know no const, so it is cast away once, at binding.
struct ConvBuffers {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  const void* bias = nullptr;  // [O]
};

class ConvPrimitive : public Primitive {
 public:
  // Nothing where oneDNN has no such convolution, or none but its reference loops.
  static std::optional<ConvPrimitive> create(const ConvProblem& problem);

  // The layout that the weights are reordered to or from, "" where ours is used as it is.
  const std::string& wanted_weights() const { return wanted_weights_; }
  void bind(const ConvBuffers& buffers, std::byte* scratch);

 private:
  using Primitive::Primitive;
  std::string wanted_weights_;
};

// All tensors are row-major (or x and w have the same order of columns, which comes to the same).
struct InnerProductProblem {
  Pass pass = Pass::forward;
  std::int64_t batch = 0;  // N
  std::int64_t in = 0;     // I
  std::int64_t out = 0;    // O
  bool bias = false;
  bool relu = false;
  int threads = 1;
  DType type = DType::f32;  // or bf16, with gradients of weights and bias, and the bias itself, in f32
};

struct InnerProductBuffers {
  const void* x = nullptr;     // [N,I]
  const void* w = nullptr;     // [O,I]
  const void* y = nullptr;     // [N,O]
  const void* bias = nullptr;  // [O]
};

class InnerProductPrimitive : public Primitive {
 public:
  static std::optional<InnerProductPrimitive> create(const InnerProductProblem& problem);
  void bind(const InnerProductBuffers& buffers, std::byte* scratch);

 private:
  using Primitive::Primitive;
};

// From one layout of a tensor to another. f32, i32 and u8.
class ReorderPrimitive : public Primitive {
 public:
  static std::optional<ReorderPrimitive> create(const TensorDesc& from, const TensorDesc& to, int threads);
  void bind(const void* from, void* to, std::byte* scratch);

 private:
  using Primitive::Primitive;
};

}  // namespace trifold::cpu
