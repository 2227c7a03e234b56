#include "kernels/cpu/onednn_chain.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/thread_scope.h"

namespace trifold::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

dnnl::engine& onednn_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr onednn_attributes(bool relu) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#else
    ops.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#endif
    attributes.set_post_ops(ops);
  }
  return attributes;
}

std::optional<dnnl::memory::data_type> onednn_type(DType type) {
  switch (type) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::i32:
      return dnnl::memory::data_type::s32;
    case DType::u8:
      return dnnl::memory::data_type::u8;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
    case DType::f64:
      break;
  }
  return std::nullopt;
}

dnnl::memory::dims onednn_dims(const Shape& shape) {
  dnnl::memory::dims dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

DnnlTag blocked_tag(int block, DnnlTag by_8, DnnlTag by_16) {
  TRIFOLD_CHECK(block == 8 || block == 16, "channel blocks are 8 or 16, not {}", block);
  return block == 8 ? by_8 : by_16;
}

int PrimitiveChain::over_buffer(const DnnlDesc& desc, int buffer) {
  slots.push_back({desc, buffer, 0});
  return static_cast<int>(slots.size()) - 1;
}

int PrimitiveChain::over_scratch(const DnnlDesc& desc) {
  slots.push_back({desc, kScratch, staged_bytes});
  staged_bytes += aligned(desc.get_size());
  return static_cast<int>(slots.size()) - 1;
}

void PrimitiveChain::add(const dnnl::primitive& primitive, const DnnlDesc& scratchpad_desc, Args args) {
  scratchpad_bytes = std::max(scratchpad_bytes, aligned(scratchpad_desc.get_size()));
  stages.push_back({primitive, scratchpad_desc, std::move(args), {}});
}

void PrimitiveChain::add_reorder(int from, int to) {
  const dnnl::reorder::primitive_desc description(onednn_engine(), slots[static_cast<std::size_t>(from)].desc,
                                                  onednn_engine(), slots[static_cast<std::size_t>(to)].desc,
                                                  onednn_attributes());
  add(dnnl::reorder(description), description.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Primitive::Primitive(std::unique_ptr<PrimitiveChain> chain) : chain_(std::move(chain)) {}
Primitive::Primitive(Primitive&&) noexcept = default;
Primitive& Primitive::operator=(Primitive&&) noexcept = default;
Primitive::~Primitive() = default;

const std::string& Primitive::implementation() const {
  return chain_->implementation;
}
std::size_t Primitive::scratch_bytes() const {
  return chain_->bytes();
}

void Primitive::bind_buffers(std::span<const void* const> buffers, std::byte* scratch) {
  PrimitiveChain& chain = *chain_;
  TRIFOLD_CHECK(scratch != nullptr || chain.bytes() == 0, "{} needs scratch", chain.implementation);
  chain.memories.clear();
  const auto make_memory = [&](const DnnlDesc& desc, const void* data) {
    chain.memories.emplace_back(desc, onednn_engine(), const_cast<void*>(data));
    return chain.memories.back().get();
  };
  std::vector<dnnl_memory_t> memories;
  for (const PrimitiveChain::Slot& slot : chain.slots)
    memories.push_back(make_memory(slot.desc, slot.buffer == PrimitiveChain::kScratch
                                                  ? scratch + slot.scratch_offset
                                                  : buffers[static_cast<std::size_t>(slot.buffer)]));
  for (PrimitiveChain::Stage& stage : chain.stages) {
    stage.bound.clear();
    for (const auto& [arg, slot] : stage.args) stage.bound.push_back({arg, memories[static_cast<std::size_t>(slot)]});
    if (stage.scratchpad.get_size() > 0)
      stage.bound.push_back({DNNL_ARG_SCRATCHPAD, make_memory(stage.scratchpad, scratch + chain.staged_bytes)});
  }
}

void Primitive::execute() const {
  // The primitive was made for this many threads: more would overrun its scratchpad.
  const ThreadScope scope(chain_->threads);
  for (const PrimitiveChain::Stage& stage : chain_->stages) {
    const dnnl_status_t status = dnnl_primitive_execute(stage.primitive.get(), chain_->stream.get(),
                                                        static_cast<int>(stage.bound.size()), stage.bound.data());
    if (status != dnnl_success)
      fail_runtime("oneDNN failed in {}: status {}", chain_->implementation, static_cast<int>(status));
  }
}

}  // namespace trifold::cpu
