#include "support/op_cases.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ostream>

#include "core/half.h"
#include "core/philox.h"
#include "support/op_case_builder.h"

namespace trifold::test {
namespace {

using AddCases = void (*)(std::vector<OpCase>& cases);

std::vector<AddCases>& families() {
  static std::vector<AddCases> registered;
  return registered;
}

// 0 .. count - 1 in random order.
std::vector<std::size_t> shuffled(std::size_t count, RandomSequence& random) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  return order;
}

void draw_floats(Draw draw, RandomSequence& random, std::span<float> to) {
  const auto order = draw == Draw::spaced ? shuffled(to.size(), random) : std::vector<std::size_t>();
  for (std::size_t i = 0; i < to.size(); ++i) switch (draw) {
      case Draw::normal:
        to[i] = random.normal();
        break;
      case Draw::wide:
        to[i] = 30 * random.normal();
        break;
      case Draw::far:
        to[i] = 10'000 + random.normal();
        break;
      case Draw::spaced:
        to[i] = 0.02f * (static_cast<float>(order[i]) - static_cast<float>(to.size() / 2) + 0.5f);
        break;
      case Draw::few:
        to[i] = static_cast<float>(random.below(3));
        break;
      case Draw::positive:
        to[i] = random.uniform(0.5f, 1.5f);
        break;
      case Draw::one_infinite:
        to[i] = i == to.size() / 2 ? std::numeric_limits<float>::infinity() : random.normal();
        break;
      case Draw::loss_scale:
        to[i] = i == 0 ? 1024 : i == 1 ? 3 : i == 2 ? 1 : 0;
        break;
      default:
        to[i] = 0;
    }
}

Layout layout_from_producer(const CaseValue& value, int block) {
  const Shape& shape = value.desc.shape;
  if (!value.activation || block == 0) return value.desc.layout;
  if (shape.rank() == 4 && shape.channels() % block == 0) return {Order::channel_block, block};
  if (shape.rank() == 2 && value.pixels > 1 && shape[1] / value.pixels % block == 0)
    return {Order::column_block, block, value.pixels};
  return value.desc.layout;
}

}  // namespace

RegisterOpCases::RegisterOpCases(void (*add)(std::vector<OpCase>& cases)) {
  families().push_back(add);
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> list;
    for (const AddCases add : families()) add(list);
    return list;
  }();
  return cases;
}

void PrintTo(const OpCase& op_case, std::ostream* os) {
  *os << op_case.name;
}

std::vector<HostTensor> draw_values(const OpCase& op_case, int block) {
  std::vector<HostTensor> values;
  for (const CaseValue& value : op_case.values) {
    HostTensor tensor{value.desc, value.opaque};
    tensor.desc.layout = layout_from_producer(value, block);
    if (value.draw != Draw::made) {
      RandomSequence random(7, Purpose::synthetic, static_cast<std::uint32_t>(values.size()));
      tensor.data.resize(value.desc.bytes());
      if (value.desc.dtype == DType::f32) {
        draw_floats(value.draw, random, tensor.as<float>());
      } else if (size_of(value.desc.dtype) == 2) {
        std::vector<float> floats(static_cast<std::size_t>(value.desc.elements()));
        draw_floats(value.draw, random, floats);
        std::ranges::transform(floats, tensor.as<std::uint16_t>().begin(),
                               value.desc.dtype == DType::f16 ? f16_from_float : bf16_from_float);
      } else if (value.desc.dtype == DType::f64) {
        std::vector<float> floats(static_cast<std::size_t>(value.desc.elements()));
        draw_floats(value.draw, random, floats);
        std::ranges::copy(floats, tensor.as<double>().begin());
      } else if (value.draw == Draw::bytes) {
        for (std::uint8_t& byte : tensor.as<std::uint8_t>()) byte = static_cast<std::uint8_t>(random.below(256));
      } else {
        const auto labels = tensor.as<std::int32_t>();
        for (std::size_t i = 0; i < labels.size(); ++i)
          labels[i] = value.draw == Draw::some_labels && i % 3 == 1
                          ? -1
                          : static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(value.limit)));
      }
    }
    values.push_back(std::move(tensor));
  }
  return values;
}

std::optional<OpCase> in_precision(const OpCase& op_case, DType type) {
  OpCase typed = op_case;
  std::vector<bool> keeps(op_case.values.size(), false);
  std::vector<bool> flows(op_case.values.size(), false);
  const auto look = [&](const CaseStep& step, const std::vector<int>& values, Op::Side side) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool keep = step.op->keeps_f32(side, static_cast<int>(i));
      (keep ? keeps : flows)[static_cast<std::size_t>(values[i])] = true;
    }
  };
  for (const CaseStep& step : op_case.steps) {
    look(step, step.in, Op::Side::in);
    look(step, step.out, Op::Side::out);
    if (step.op->name().starts_with("optimizer.") || step.op->name() == "cast") return std::nullopt;
  }
  bool changed = false;
  for (std::size_t i = 0; i < typed.values.size(); ++i) {
    if (op_case.values[i].desc.dtype != DType::f32 || !flows[i]) continue;
    if (keeps[i]) return std::nullopt;  // a cast would stand here
    typed.values[i].desc.dtype = type;
    changed = true;
  }
  return changed ? std::optional(typed) : std::nullopt;
}

OpCase in_double(const OpCase& op_case) {
  OpCase typed = op_case;
  for (CaseValue& value : typed.values)
    if (value.desc.dtype == DType::f32 && value.draw != Draw::loss_scale) value.desc.dtype = DType::f64;
  return typed;
}

std::vector<HostTensor> run_step(const OpRun& run, const OpCase& op_case, const CaseStep& step,
                                 const std::vector<HostTensor>& values) {
  std::vector<HostTensor> in;
  for (const int index : step.in) in.push_back(values[static_cast<std::size_t>(index)]);
  std::vector<OpOutput> out;
  for (const int index : step.out) {
    const CaseValue& value = op_case.values[static_cast<std::size_t>(index)];
    const auto same = std::find(step.in.begin(), step.in.end(), index);
    out.push_back({.desc = value.desc,
                   .opaque = value.opaque,
                   .updates = same == step.in.end() ? -1 : static_cast<int>(same - step.in.begin())});
  }
  return run_op(run, *step.op, in, out);
}

StepContext case_context() {
  return {.seed = 11, .first_sample = 37, .learning_rate = 0.1, .updates = 3, .mean_class_weight = 1.25};
}

}  // namespace trifold::test
