// Inside the oneDNN wrapper only: what differs between oneDNN 2.x (op descriptors) and 3.x, our layouts in its terms,
// and the chain of primitives that is behind every Primitive.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include "core/tensor.h"

namespace trifold::cpu {

using DnnlDesc = dnnl::memory::desc;
using DnnlTag = dnnl::memory::format_tag;

// The tensors of a product, in the order in which a chain takes their buffers.
enum Buffer { kX, kW, kY, kBias };

dnnl::engine& onednn_engine();
dnnl::primitive_attr onednn_attributes(bool relu = false);  // scratchpads are ours

std::optional<dnnl::memory::data_type> onednn_type(DType type);
dnnl::memory::dims onednn_dims(const Shape& shape);
DnnlTag blocked_tag(int block, DnnlTag by_8, DnnlTag by_16);

// The description of a primitive, empty where oneDNN has none; of a gradient it needs that of the forward pass.
#if DNNL_VERSION_MAJOR >= 3
template <class P, class... Args>
typename P::primitive_desc describe(const dnnl::primitive_attr& attributes, const Args&... args) {
  return typename P::primitive_desc(onednn_engine(), args..., attributes, true);
}
template <class P, class Forward, class... Args>
typename P::primitive_desc describe_gradient(const dnnl::primitive_attr& attributes, const Forward& forward,
                                             const Args&... args) {
  return typename P::primitive_desc(onednn_engine(), args..., forward, attributes, true);
}
#else
template <class P, class... Args>
typename P::primitive_desc describe(const dnnl::primitive_attr& attributes, const Args&... args) {
  return typename P::primitive_desc(typename P::desc(args...), attributes, onednn_engine(), true);
}
template <class P, class Forward, class... Args>
typename P::primitive_desc describe_gradient(const dnnl::primitive_attr& attributes, const Forward& forward,
                                             const Args&... args) {
  return typename P::primitive_desc(typename P::desc(args...), attributes, onednn_engine(), forward, true);
}
#endif

// Primitives that run one after the other over numbered buffers of the caller and parts of one scratch.
struct PrimitiveChain {
  static constexpr int kScratch = -1;

  // A memory object to be.
  struct Slot {
    DnnlDesc desc;
    int buffer = kScratch;
    std::size_t scratch_offset = 0;
  };
  using Args = std::vector<std::pair<int, int>>;  // (DNNL_ARG_*, slot)
  struct Stage {
    dnnl::primitive primitive;
    DnnlDesc scratchpad;
    Args args;
    std::vector<dnnl_exec_arg_t> bound;
  };

  explicit PrimitiveChain(int threads_in) : threads(threads_in), stream(onednn_engine()) {}

  int over_buffer(const DnnlDesc& desc, int buffer);
  int over_scratch(const DnnlDesc& desc);
  void add(const dnnl::primitive& primitive, const DnnlDesc& scratchpad_desc, Args args);
  void add_reorder(int from, int to);  // throws dnnl::error where oneDNN cannot

  std::size_t bytes() const { return staged_bytes + scratchpad_bytes; }

  int threads;
  dnnl::stream stream;
  std::string implementation;
  std::vector<Slot> slots;
  std::vector<Stage> stages;
  std::size_t staged_bytes = 0;        // reordered tensors come first in the scratch
  std::size_t scratchpad_bytes = 0;    // one scratchpad follows, for one stage after the other
  std::vector<dnnl::memory> memories;  // once bound: what Stage::bound points to
};

}  // namespace trifold::cpu
