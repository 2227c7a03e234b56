#include "networks/node_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/half.h"
#include "kernels/ops/collective.h"
#include "networks/rounding.h"

namespace trifold::test {
namespace {

constexpr int kNodeRuns = 3;
constexpr int kMostNodeRuns = 15;  // before something counts as different
constexpr double kNodeMargin = 16;

bool is_any_float(DType type) {
  return type == DType::f64 || type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// Before a max_pool: less than any number of the type.
bool is_padding(double value) {
  return value < -1e300;
}

double number_at(DType type, const std::byte* from, std::size_t index) {
  const auto load = [&]<class T>(T) {
    T value;
    std::memcpy(&value, from + index * sizeof(T), sizeof(T));
    return value;
  };
  switch (type) {
    case DType::f64:
      return load(double{});
    case DType::f16:
      return float_from_f16(load(std::uint16_t{}));
    case DType::bf16:
      return float_from_bf16(load(std::uint16_t{}));
    default:
      return load(float{});
  }
}

}  // namespace

NodeCheck::NodeCheck(Executable& program, bool strict_math, Report report)
    : program_(program), strict_math_(strict_math), report_(std::move(report)) {
  program_.watch_nodes(this);
}

NodeCheck::~NodeCheck() {
  program_.watch_nodes(nullptr);
}

bool NodeCheck::can_compare(const Node& node) const {
  // Exchanges need other ranks. Updates are compared as a whole.
  return node.phase != Phase::update && dynamic_cast<const Exchange*>(node.op.get()) == nullptr &&
         reference_backend().supports(node.op->name()) && program_.slots() == 1;
}

NodeCheck::Tensor NodeCheck::read(const Node& node, Op::Side side, std::size_t index) const {
  const std::vector<TensorDesc>& descs = program_.program().descs;
  const ValueId id = (side == Op::Side::in ? node.in : node.out)[index];
  const TensorDesc& desc = descs[static_cast<std::size_t>(id)];
  const std::byte* memory = program_.device_data(id);
  Tensor tensor{.desc = {desc.shape, is_any_float(desc.dtype) ? DType::f64 : desc.dtype, {}}, .type = desc.dtype};
  if (node.op->mask_follows(side, static_cast<int>(index))) {
    tensor.others = side == Op::Side::in ? masks_.at(id) : std::vector<std::byte>(desc.bytes());
    return tensor;
  }
  if (id == program_.program().graph.loss_scale) {  // is f32 always
    tensor.desc.dtype = DType::f32;
    tensor.others.assign(memory, memory + desc.bytes());
    return tensor;
  }
  const auto count = static_cast<std::size_t>(desc.elements());
  const std::size_t size = size_of(desc.dtype);
  if (is_any_float(desc.dtype))
    tensor.floats.resize(count);
  else
    tensor.others.resize(desc.bytes());
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = static_cast<std::size_t>(offset_in(desc.layout, desc.shape, static_cast<std::int64_t>(i)));
    if (is_any_float(desc.dtype))
      tensor.floats[i] = number_at(desc.dtype, memory, from);
    else
      std::memcpy(tensor.others.data() + i * size, memory + from * size, size);
  }
  return tensor;
}

void NodeCheck::before(std::size_t index) {
  const Node& node = program_.program().graph.nodes[index];
  in_.clear();
  if (!can_compare(node)) return;
  for (std::size_t i = 0; i < node.in.size(); ++i) in_.push_back(read(node, Op::Side::in, i));
}

// Gradients in fp16 may grow beyond it: the update is then left out, and what becomes of infinities on the way there is
// nobody's result.
bool NodeCheck::has_overflowed() const {
  if (program_.program().graph.loss_scale == kNoValue) return false;
  return std::ranges::any_of(in_, [](const Tensor& tensor) {
    return std::ranges::any_of(tensor.floats, [](double number) { return !std::isfinite(number); });
  });
}

// `noise_seed` 0: exact.
std::vector<NodeCheck::Tensor> NodeCheck::run_reference(const Node& node, std::vector<Tensor> in,
                                                        std::uint64_t noise_seed) const {
  std::vector<TensorDesc> in_descs;
  std::vector<TensorDesc> out_descs;
  for (const Tensor& tensor : in) in_descs.push_back(tensor.desc);
  std::vector<Tensor> out;
  for (const ValueId id : node.out) {
    const TensorDesc& desc = program_.program().descs[static_cast<std::size_t>(id)];
    Tensor& tensor = out.emplace_back();
    tensor.desc = {desc.shape, is_any_float(desc.dtype) ? DType::f64 : desc.dtype, {}};
    tensor.type = desc.dtype;
    const auto same = std::ranges::find(node.in, id);
    if (same != node.in.end())
      tensor = in[static_cast<std::size_t>(same - node.in.begin())];  // updated where it lies
    else if (is_any_float(desc.dtype))
      tensor.floats.resize(static_cast<std::size_t>(desc.elements()));
    else
      tensor.others.resize(desc.bytes());
    out_descs.push_back(tensor.desc);
  }
  if (noise_seed > 0) {
    Noise noise(noise_seed);
    const double growth = growth_of_sum(products_per_element(*node.op, in_descs, out_descs));
    for (Tensor& tensor : in) disturb_terms(tensor.floats, unit_of(DType::f32) * growth, noise);
  }
  std::vector<std::byte*> in_data;
  std::vector<std::byte*> out_data;
  for (std::size_t i = 0; i < out.size(); ++i) out_data.push_back(out[i].data());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto updated = std::ranges::find(node.out, node.in[i]);
    in_data.push_back(updated == node.out.end() ? in[i].data()
                                                : out_data[static_cast<std::size_t>(updated - node.out.begin())]);
  }
  const KernelPtr kernel = reference_backend().make({.op = *node.op, .in = in_descs, .out = out_descs});
  std::vector<std::byte> scratch(kernel->scratch_bytes());
  kernel->bind(in_data, out_data, scratch.data());
  kernel->run(context_);
  return out;
}

void NodeCheck::after(std::size_t index) {
  const Graph& graph = program_.program().graph;
  const Node& node = graph.nodes[index];
  if (!can_compare(node) || has_overflowed()) return;
  ++compared_;
  const std::vector<Tensor> exact = run_reference(node, in_, 0);
  std::vector<std::vector<Tensor>> disturbed;
  const auto disturb = [&](int runs) {
    for (int i = 0; i < runs; ++i) disturbed.push_back(run_reference(node, in_, disturbed.size() + 1));
  };
  disturb(kNodeRuns);
  std::vector<TensorDesc> in_descs;
  for (const Tensor& tensor : in_) in_descs.push_back(tensor.desc);
  const bool winograd = !strict_math_ && may_be_winograd(*node.op, in_descs);
  for (std::size_t o = 0; o < node.out.size(); ++o) {
    if (node.op->mask_follows(Op::Side::out, static_cast<int>(o))) {
      masks_[node.out[o]] = exact[o].others;
      continue;
    }
    const Tensor mine = read(node, Op::Side::out, o);
    const std::string what = (node.layer < 0 ? "" : graph.layers[static_cast<std::size_t>(node.layer)].id + " ") +
                             to_string(*node.op) + ": " + graph[node.out[o]].name;
    if (!mine.others.empty()) {
      report_(what, mine.others == exact[o].others ? 0 : 1, 0);
      continue;
    }
    Worst worst = compare(node, mine, exact[o], disturbed, o, winograd);
    if (!(worst.error <= worst.allowed) && std::ssize(disturbed) < kMostNodeRuns) {
      disturb(kMostNodeRuns - kNodeRuns);
      worst = compare(node, mine, exact[o], disturbed, o, winograd);
    }
    report_(what, worst.error, worst.allowed);
  }
}

// A bias's gradient may be a sum of many equal numbers, which rounds the same way at every term: an eighth of a unit
// for each of them, relative to the sum.
double NodeCheck::equal_terms_error(const Node& node, std::size_t out) const {
  if (!is_product(node.op->kind()) || out == 0) return 0;
  std::vector<TensorDesc> in_descs;
  std::vector<TensorDesc> out_descs;
  for (const ValueId id : node.in) in_descs.push_back(program_.program().descs[static_cast<std::size_t>(id)]);
  for (const ValueId id : node.out) out_descs.push_back(program_.program().descs[static_cast<std::size_t>(id)]);
  return products_per_element(*node.op, in_descs, out_descs) * unit_of(DType::f32) / 8;
}

NodeCheck::Worst NodeCheck::compare(const Node& node, const Tensor& mine, const Tensor& exact,
                                    const std::vector<std::vector<Tensor>>& disturbed, std::size_t out,
                                    bool winograd) const {
  double largest = 0;
  double spread = 0;
  for (std::size_t i = 0; i < mine.floats.size(); ++i) {
    if (is_padding(exact.floats[i])) continue;
    largest = std::max(largest, std::abs(exact.floats[i]));
    for (const std::vector<Tensor>& run : disturbed)
      spread = std::max(spread, std::abs(run[out].floats[i] - exact.floats[i]));
  }
  // A state that is updated once per group is rounded each time, on its way from the value before: that may be larger.
  if (const auto same = std::ranges::find(node.in, node.out[out]); same != node.in.end())
    for (const double value : in_[static_cast<std::size_t>(same - node.in.begin())].floats)
      largest = std::max(largest, std::abs(value));
  const double of_tensor = kNodeMargin * spread + 2 * unit_of(DType::f32) * largest +
                           absolute_error(*node.op, in_[0].floats) +
                           (winograd ? kNodeMargin * kWinogradError * largest : 0) +
                           (mine.type == DType::f16 ? 0x1p-24 : 0) + equal_terms_error(node, out) * largest;
  const double of_number = size_of(mine.type) == 2 ? 1.01 * unit_of(mine.type) : 0;
  Worst worst{.error = 0, .allowed = of_tensor};
  for (std::size_t i = 0; i < mine.floats.size(); ++i) {
    const double value = exact.floats[i];
    // fp16 ends at 65504: what is larger is infinite.
    if (mine.type == DType::f16 && std::abs(value) > 65000 && !(std::abs(mine.floats[i]) < 65000)) continue;
    if (is_padding(value) && mine.floats[i] < -1e38) continue;
    const double error = mine.floats[i] == value ? 0 : std::abs(mine.floats[i] - value);
    const double allowed = of_tensor + of_number * std::abs(value);
    if (!(error * worst.allowed <= worst.error * allowed)) worst = {error, allowed};  // a NaN is the worst
  }
  return worst;
}

}  // namespace trifold::test
