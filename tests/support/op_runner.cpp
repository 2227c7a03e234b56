#include "support/op_runner.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>

#include "core/error.h"
#include "core/half.h"
#include "core/parallel.h"
#include "kernels/ops/shape_ops.h"

namespace trifold::test {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kScratchLimit = 1 << 20;
constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};
constexpr std::byte kUnwritten{0xFF};  // floats of it are NaN: an element nobody wrote does not go unseen

// `bytes` of aligned memory between two guards.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) : bytes_(bytes) {
    const std::size_t whole = (kGuardBytes + bytes + kGuardBytes + kAlignment - 1) / kAlignment * kAlignment;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
    std::fill_n(memory_.get(), whole, kGuard);
    std::fill_n(data(), bytes, kUnwritten);
  }

  std::byte* data() const { return memory_.get() + kGuardBytes; }
  std::size_t bytes() const { return bytes_; }
  bool intact() const {
    const auto guards = [](const std::byte* from) {
      return std::all_of(from, from + kGuardBytes, [](std::byte b) { return b == kGuard; });
    };
    return guards(memory_.get()) && guards(data() + bytes_);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

// The buffers of a run: on the host between guards; a device looks after its memory itself.
class Buffers {
 public:
  explicit Buffers(Device& device) : device_(device) {}

  std::byte* allocate(std::size_t bytes) {
    if (device_.host_memory()) return guarded_.emplace_back(bytes).data();
    return on_device_.emplace_back(device_, bytes).data();
  }
  bool intact() const {
    return std::ranges::all_of(guarded_, [](const GuardedBuffer& buffer) { return buffer.intact(); });
  }

 private:
  Device& device_;
  std::list<GuardedBuffer> guarded_;
  std::list<DeviceMemory> on_device_;
};

enum class Direction { from_plain, to_plain };

// Element by element, so that it serves any dtype.
void convert(Direction direction, const TensorDesc& desc, const std::byte* from, std::byte* to) {
  const std::size_t size = size_of(desc.dtype);
  for (std::int64_t i = 0; i < desc.elements(); ++i) {
    const auto plain = static_cast<std::size_t>(i);
    const auto laid_out = static_cast<std::size_t>(offset_in(desc.layout, desc.shape, i));
    const bool reading = direction == Direction::to_plain;
    std::memcpy(to + (reading ? plain : laid_out) * size, from + (reading ? laid_out : plain) * size, size);
  }
}

// The input whose buffer output `index` takes over, or -1.
int memory_of(const OpRun& run, const Op& op, std::size_t index, std::span<const TensorDesc> in, const OpOutput& out,
              const TensorDesc& out_desc, const std::vector<bool>& taken) {
  if (out.updates >= 0) return out.updates;
  if (!run.in_place) return -1;
  for (const int candidate : op.in_place(static_cast<int>(index))) {
    const auto c = static_cast<std::size_t>(candidate);
    if (!taken[c] && in[c] == out_desc) return candidate;
  }
  return -1;
}

}  // namespace

double HostTensor::number(std::size_t index) const {
  switch (desc.dtype) {
    case DType::f32:
      return as<float>()[index];
    case DType::f64:
      return as<double>()[index];
    case DType::i32:
      return as<std::int32_t>()[index];
    case DType::u8:
      return as<std::uint8_t>()[index];
    case DType::f16:
      return float_from_f16(as<std::uint16_t>()[index]);
    case DType::bf16:
      return float_from_bf16(as<std::uint16_t>()[index]);
  }
  fail_runtime("unknown dtype");
}

std::vector<HostTensor> run_op(const OpRun& run, const Op& op, std::span<const HostTensor> in,
                               std::span<const OpOutput> out) {
  std::vector<TensorDesc> in_descs;
  std::vector<TensorDesc> out_descs;
  for (const HostTensor& tensor : in) in_descs.push_back(tensor.desc);
  for (const OpOutput& output : out) out_descs.push_back(output.desc);
  if (op.name() != Reorder().name()) {  // a reorder is made for two layouts, not asked
    const LayoutChoice layouts = run.backend.choose_layouts(op, in_descs, out_descs);
    TRIFOLD_CHECK(layouts.in.size() == in.size() && layouts.out.size() == out.size(), "one layout a tensor");
    for (std::size_t i = 0; i < in.size(); ++i) in_descs[i].layout = layouts.in[i];
    for (std::size_t i = 0; i < out.size(); ++i) out_descs[i].layout = layouts.out[i];
  }

  Buffers buffers(*run.device);
  std::vector<std::byte*> in_memory;
  for (std::size_t i = 0; i < in.size(); ++i) {
    in_memory.push_back(buffers.allocate(in_descs[i].bytes()));
    std::vector<std::byte> laid_out = in[i].data;
    if (!in[i].opaque) convert(Direction::from_plain, in_descs[i], in[i].data.data(), laid_out.data());
    run.device->upload(in_memory[i], laid_out.data(), laid_out.size());
  }
  std::vector<std::byte*> out_memory;
  std::vector<bool> taken(in.size(), false);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int input = memory_of(run, op, i, in_descs, out[i], out_descs[i], taken);
    if (input >= 0) taken[static_cast<std::size_t>(input)] = true;
    out_memory.push_back(input >= 0 ? in_memory[static_cast<std::size_t>(input)]
                                    : buffers.allocate(out_descs[i].bytes()));
  }

  const KernelPtr kernel = run.backend.make({.op = op,
                                             .in = in_descs,
                                             .out = out_descs,
                                             .threads = thread_count(),
                                             .strict_math = run.strict_math,
                                             .scratch_limit = kScratchLimit,
                                             .device = run.device});
  const auto contents = [&](const std::byte* memory, std::size_t bytes) {
    std::vector<std::byte> copy(bytes);
    run.device->download(copy.data(), memory, bytes);
    return copy;
  };
  std::vector<std::vector<std::byte>> before;  // inputs that no output may write over
  for (std::size_t i = 0; i < in.size(); ++i)
    before.push_back(contents(in_memory[i], taken[i] ? 0 : in_descs[i].bytes()));
  const std::size_t scratch_bytes = kernel->scratch_bytes();
  kernel->bind(in_memory, out_memory, scratch_bytes > 0 ? buffers.allocate(scratch_bytes) : nullptr);
  run.device->set_step(run.context);
  kernel->run(run.context);
  run.device->synchronize();
  TRIFOLD_CHECK(buffers.intact(), "{} on {} wrote outside its memory", to_string(op), run.backend.name());
  for (std::size_t i = 0; i < in.size(); ++i)
    TRIFOLD_CHECK(before[i] == contents(in_memory[i], before[i].size()), "{} on {} wrote over its input {}",
                  to_string(op), run.backend.name(), i);

  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    HostTensor result{out_descs[i], out[i].opaque, contents(out_memory[i], out_descs[i].bytes())};
    if (!out[i].opaque) {
      const std::vector<std::byte> laid_out = result.data;
      convert(Direction::to_plain, out_descs[i], laid_out.data(), result.data.data());
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace trifold::test
