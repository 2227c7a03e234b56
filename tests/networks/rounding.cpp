#include "networks/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "kernels/ops/activation.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/shape_ops.h"

namespace trifold::test {
namespace {

constexpr double kFloatUnit = 0x1p-23;
constexpr double kSmallestHalf = 0x1p-24;  // fp16 without an exponent
constexpr double kLargestHalf = 65504;

bool is_16_bits(DType type) {
  return type == DType::f16 || type == DType::bf16;
}

// The type in which a program may have this value of the node.
DType type_of(const RoundingOptions& options, const Graph& graph, const Node& node, Op::Side side, std::size_t index) {
  if (node.op->keeps_f32(side, static_cast<int>(index))) return DType::f32;
  if (node.layer < 0) return options.precision;
  return graph.layers[static_cast<std::size_t>(node.layer)].precision.value_or(options.precision);
}

std::vector<TensorDesc> shapes_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<TensorDesc> descs;
  for (const ValueId id : ids) descs.push_back({graph[id].shape, graph[id].dtype, {}});
  return descs;
}

bool moves_only(const Op& op) {
  return dynamic_cast<const Concat*>(&op) != nullptr || dynamic_cast<const SplitChannels*>(&op) != nullptr ||
         dynamic_cast<const MaxPoolForward*>(&op) != nullptr;
}

double largest(const std::vector<double>& values) {
  double found = 0;
  for (const double value : values) found = std::max(found, std::abs(value));
  return found;
}

}  // namespace

double unit_of(DType type) {
  return type == DType::f16 ? 0x1p-11 : type == DType::bf16 ? 0x1p-8 : type == DType::f32 ? kFloatUnit : 0;
}

// Partial sums round too. Of a random walk they grow with the root of its length; of terms that are alike, with the
// length itself, which neighbours with a common error stand for (disturb_terms).
double growth_of_sum(double products) {
  return 1 + std::sqrt(products) / 2;
}

double products_per_element(const Op& op, std::span<const TensorDesc> in, std::span<const TensorDesc> out) {
  if (!is_product(op.kind())) return 1;
  return std::max(1.0, op.flops(in, out) / (2.0 * static_cast<double>(out[0].elements())));
}

double absolute_error(const Op& op, const std::vector<double>& first_input) {
  if (dynamic_cast<const LogSoftmaxBackward*>(&op) != nullptr) return kFloatUnit * largest(first_input);
  const auto* loss = dynamic_cast<const CrossEntropy*>(&op);
  if (loss == nullptr) return 0;
  const double largest_weight = loss->class_weights.empty() ? 1 : *std::ranges::max_element(loss->class_weights);
  return kFloatUnit * std::max(1.0, largest_weight) / static_cast<double>(loss->global_batch);
}

bool may_be_winograd(const Op& op, std::span<const TensorDesc> in) {
  const auto fits = [](const Conv2dArgs& args, const Shape& w) {
    return w[2] == 3 && w[3] == 3 && args.stride == Pair{1, 1} && args.dilation == Pair{1, 1} && args.groups == 1;
  };
  if (const auto* forward = dynamic_cast<const Conv2dForward*>(&op)) return fits(forward->args, in[1].shape);
  if (const auto* data = dynamic_cast<const Conv2dBackwardData*>(&op)) return fits(data->args, in[1].shape);
  return false;
}

void disturb(std::vector<double>& values, double relative, double absolute, Noise& noise) {
  const auto key = std::bit_cast<std::uint64_t>(noise());
  for (double& value : values)
    if (value != 0)
      value += (relative * std::abs(value) + absolute) * Noise(key + std::bit_cast<std::uint64_t>(value))();
}

void disturb_terms(std::vector<double>& values, double relative, Noise& noise) {
  constexpr std::size_t kNeighbours = 256;
  double common = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % kNeighbours == 0) common = noise();
    values[i] += relative * values[i] * (common + noise()) / 2;
  }
}

std::map<ValueId, std::vector<double>> Rounding::disturb_inputs(const Graph& graph, int pass, std::size_t index,
                                                                std::vector<std::vector<double>>& values) {
  const Node& node = graph.nodes[index];
  std::map<ValueId, std::vector<double>> kept;
  if (kinks_ != nullptr && Kinks::has_kink(*node.op)) {
    std::vector<double>& input = values[static_cast<std::size_t>(node.in[0])];
    kept[node.in[0]] = input;
    kinks_->cross(pass, index, input, noise_);
  }
  if (moves_only(*node.op)) return kept;
  const double growth =
      growth_of_sum(products_per_element(*node.op, shapes_of(graph, node.in), shapes_of(graph, node.out)));
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const ValueId id = node.in[i];
    std::vector<double>& input = values[static_cast<std::size_t>(id)];
    const bool updated = std::ranges::find(node.out, id) != node.out.end();
    if (input.empty() || updated || !kept.try_emplace(id, input).second) continue;
    // In 16 bits a reader may have the number before it was rounded, where ops are fused, or another rounding of it.
    const DType type = type_of(options_, graph, node, Op::Side::in, i);
    disturb_terms(input, kFloatUnit * growth, noise_);
    if (is_16_bits(type)) disturb(input, unit_of(type), 0, noise_);
    if (type == DType::f16 && graph[id].role == Role::activation) overflowed_ |= largest(input) > kLargestHalf / 4;
  }
  return kept;
}

void Rounding::disturb_outputs(const Graph& graph, const Node& node, std::vector<std::vector<double>>& values) {
  const bool winograd = options_.winograd && may_be_winograd(*node.op, shapes_of(graph, node.in));
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    std::vector<double>& output = values[static_cast<std::size_t>(node.out[i])];
    const Role role = graph[node.out[i]].role;
    if (output.empty() || role == Role::report) continue;
    const DType type = role == Role::activation || role == Role::gradient
                           ? type_of(options_, graph, node, Op::Side::out, i)
                           : DType::f32;
    const double scale = role == Role::gradient ? options_.loss_scale : 1;
    const double absolute = absolute_error(*node.op, values[static_cast<std::size_t>(node.in[0])]) +
                            (winograd ? kWinogradError * largest(output) : 0) +
                            (type == DType::f16 ? kSmallestHalf / scale : 0);
    if (moves_only(*node.op) && !is_16_bits(type)) continue;
    disturb(output, unit_of(type), absolute, noise_);
  }
}

// --- kinks

namespace {

// The values at which the gradient of an element-wise function jumps.
std::span<const double> kinks_of(const Op& op) {
  const auto* activation = dynamic_cast<const ActivationForward*>(&op);
  return activation == nullptr ? std::span<const double>() : traits_of(activation->function).kinks;
}

}  // namespace

bool Kinks::has_kink(const Op& op) {
  return dynamic_cast<const MaxPoolForward*>(&op) != nullptr || !kinks_of(op).empty();
}

void Kinks::see(const Graph& graph, int pass, std::size_t node, const std::vector<double>& input) {
  const auto [found, first] = places_.try_emplace({pass, node});
  Place& place = found->second;
  if (first) {
    place = {graph.nodes[node].op, graph[graph.nodes[node].in[0]].shape, input};
    return;
  }
  for (std::size_t i = 0; i < input.size(); ++i)
    place.error = std::max(place.error, std::abs(input[i] - place.exact[i]));
}

namespace {

// Calls visit(place of the largest value, place of the largest that is less) for each window that has two.
template <class Visit>
void for_each_window(const PoolArgs& args, const Shape& shape, const std::vector<double>& x, Visit visit) {
  constexpr std::size_t kNone = SIZE_MAX;
  const std::int64_t height = shape[2];
  const std::int64_t width = shape[3];
  for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (std::int64_t top = -args.pad[0]; top + args.kernel[0] <= height + args.pad[0]; top += args.stride[0])
      for (std::int64_t left = -args.pad[1]; left + args.kernel[1] <= width + args.pad[1]; left += args.stride[1]) {
        std::size_t first = kNone;
        std::size_t second = kNone;
        for (std::int64_t row = std::max<std::int64_t>(0, top); row < std::min(height, top + args.kernel[0]); ++row)
          for (std::int64_t column = std::max<std::int64_t>(0, left); column < std::min(width, left + args.kernel[1]);
               ++column) {
            const auto place = static_cast<std::size_t>((plane * height + row) * width + column);
            if (first == kNone || x[place] > x[first])
              second = std::exchange(first, place);
            else if (x[place] < x[first] && (second == kNone || x[place] > x[second]))
              second = place;
          }
        if (second != kNone) visit(first, second);
      }
}

}  // namespace

bool Kinks::close(double margin) const {
  for (const auto& [key, place] : places_) {
    const double gap = margin * place.error;
    if (const auto* pool = dynamic_cast<const MaxPoolForward*>(place.op.get())) {
      bool found = false;
      for_each_window(pool->args, place.shape, place.exact, [&](std::size_t first, std::size_t second) {
        found = found || place.exact[first] - place.exact[second] < 2 * gap;
      });
      if (found) return true;
      continue;
    }
    for (const double kink : kinks_of(*place.op))
      if (std::ranges::any_of(place.exact, [&](double x) { return x != kink && std::abs(x - kink) <= gap; }))
        return true;
  }
  return false;
}

void Kinks::cross(int pass, std::size_t node, std::vector<double>& input, Noise& noise) const {
  const Place& place = places_.at({pass, node});
  const double gap = 2 * place.error;  // the largest error of a few runs is not the largest there is
  if (const auto* pool = dynamic_cast<const MaxPoolForward*>(place.op.get())) {
    for_each_window(pool->args, place.shape, place.exact, [&](std::size_t first, std::size_t second) {
      if (place.exact[first] - place.exact[second] <= gap && noise() > 0) std::swap(input[first], input[second]);
    });
    return;
  }
  for (const double kink : kinks_of(*place.op))
    for (std::size_t i = 0; i < input.size(); ++i)
      if (std::abs(place.exact[i] - kink) <= gap) input[i] = kink + std::copysign(input[i] - kink, noise());
}

}  // namespace trifold::test
