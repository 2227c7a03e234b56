#include "support/optimizer_precision.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>

#include <fmt/format.h>

namespace trifold::test {
namespace {

constexpr std::int64_t kWeights = 300;
constexpr double kUlp = 0x1p-23;

const std::vector<ParameterSegment>& precise_segments() {
  static const std::vector<ParameterSegment> segments = {{0, 141, true}, {141, 200, false}, {200, kWeights, true}};
  return segments;
}

// One parameter in double: the weight, its states, and how far it has moved in all.
struct ExactWeight {
  double weight = 0, first = 0, second = 0, moved = 0;

  void move(double by) {
    weight += by;
    moved += std::abs(by);
  }
};

class ExactOptimizer {
 public:
  ExactOptimizer(const OptimizerArgs& args, std::span<const float> weights) : args_(args) {
    for (const float weight : weights) weights_.push_back({.weight = weight});
  }

  void update(std::span<const float> gradients, double rate) {
    ++updates_;
    for (const ParameterSegment& segment : precise_segments()) {
      const double decay = segment.decay ? args_.weight_decay : 0;
      const double local = local_rate(segment, gradients);
      for (std::int64_t i = segment.begin; i < segment.end; ++i)
        update(weights_[static_cast<std::size_t>(i)], gradients[static_cast<std::size_t>(i)], rate, decay, local);
    }
  }

  const std::vector<ExactWeight>& weights() const { return weights_; }

 private:
  double local_rate(const ParameterSegment& segment, std::span<const float> gradients) const {
    if (args_.kind != OptimizerKind::lars || !segment.decay) return 1;
    double w = 0, g = 0;
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      w += weights_[at].weight * weights_[at].weight;
      g += double{gradients[at]} * gradients[at];
    }
    return args_.trust * std::sqrt(w) / (std::sqrt(g) + args_.weight_decay * std::sqrt(w));
  }

  void update(ExactWeight& w, double g, double rate, double decay, double local) const {
    if (args_.kind == OptimizerKind::adamw)
      w.move(-rate * decay * w.weight);
    else
      g += decay * w.weight;
    switch (args_.kind) {
      case OptimizerKind::adam:
      case OptimizerKind::adamw: {
        w.first = args_.beta1 * w.first + (1 - args_.beta1) * g;
        w.second = args_.beta2 * w.second + (1 - args_.beta2) * g * g;
        const double mean = w.first / -std::expm1(updates_ * std::log(args_.beta1));
        const double square = w.second / -std::expm1(updates_ * std::log(args_.beta2));
        w.move(-rate * mean / (std::sqrt(square) + args_.eps));
        return;
      }
      case OptimizerKind::adagrad:
        w.first += g * g;
        w.move(-rate * g / (std::sqrt(w.first + args_.initial_accumulator) + args_.eps));
        return;
      case OptimizerKind::lars:  // You, Gitman and Ginsburg (2017), algorithm 1
        g *= rate * local;
        w.first = args_.momentum * w.first + g;
        w.move(args_.nesterov ? -(g + args_.momentum * w.first) : -w.first);
        return;
      case OptimizerKind::sgd:
        w.first = args_.momentum * w.first + g;
        w.move(-rate * (args_.nesterov ? g + args_.momentum * w.first : w.first));
    }
  }

  OptimizerArgs args_;
  std::vector<ExactWeight> weights_;
  double updates_ = 0;
};

HostTensor flat_tensor(std::span<const float> values) {
  HostTensor tensor{.desc = {Shape{static_cast<std::int64_t>(values.size())}}};
  tensor.data.resize(tensor.desc.bytes());
  std::copy(values.begin(), values.end(), tensor.as().begin());
  return tensor;
}

// The tensors of one update after another.
struct UpdatedTensors {
  OptimizerUpdate op;
  std::vector<HostTensor> in;
  std::vector<OpOutput> out;

  UpdatedTensors(const OptimizerArgs& args, std::span<const float> weights, std::span<const float> states) {
    op.args = args;
    op.segments = precise_segments();
    in = {flat_tensor(weights), {}};
    out = {{.desc = in[0].desc, .updates = 0}};
    for (int state = 0; state < op.state_count(); ++state) {
      in.push_back(flat_tensor(states));
      out.push_back({.desc = in[0].desc, .updates = 2 + state});
    }
    out.push_back({.desc = {Shape{1}, DType::f64}});
  }

  void update(const OpRun& run, std::span<const float> gradients) {
    in[1] = flat_tensor(gradients);
    const std::vector<HostTensor> made = run_op(run, op, in, out);
    in[0] = made[0];
    for (std::size_t state = 0; state < static_cast<std::size_t>(op.state_count()); ++state)
      in[2 + state] = made[1 + state];
  }
};

double ulps_between(const HostTensor& weights, const std::vector<ExactWeight>& exact) {
  double largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double scale = std::max(std::abs(exact[i].weight), exact[i].moved);
    const double error = std::abs(weights.number(i) - exact[i].weight) / (scale * kUlp);
    if (!(error <= largest)) largest = error;  // a NaN stays
  }
  return largest;
}

}  // namespace

void PrintTo(const OptimizerPrecisionCase& precision_case, std::ostream* os) {
  *os << precision_case.name;
}

const std::vector<OptimizerPrecisionCase>& optimizer_precision_cases() {
  static const std::vector<OptimizerPrecisionCase> all = [] {
    std::vector<OptimizerPrecisionCase> cases = {
        {"sgd", {.weight_decay = 0.01}},
        {"momentum", {.momentum = 0.9, .weight_decay = 0.01}},
        {"momentum_near_1", {.momentum = 0.99999999, .weight_decay = 0.01}},
        {"nesterov", {.momentum = 0.99, .nesterov = true, .weight_decay = 0.01}},
        {"lars", {.kind = OptimizerKind::lars, .momentum = 0.9, .weight_decay = 0.01, .trust = 0.02}},
        {"lars_nesterov",
         {.kind = OptimizerKind::lars, .momentum = 0.99, .nesterov = true, .weight_decay = 0.01, .trust = 0.02}},
        {"adagrad", {.kind = OptimizerKind::adagrad, .weight_decay = 0.01, .eps = 1e-10}},
        {"adagrad_initial", {.kind = OptimizerKind::adagrad, .initial_accumulator = 0.1}}};
    const std::pair<const char*, double> betas[] = {
        {"0_9", 0.9}, {"0_999", 0.999}, {"0_99999", 0.99999}, {"0_99999999", 0.99999999}};
    for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::adamw})
      for (const auto& [name1, beta1] : betas)
        for (const auto& [name2, beta2] : betas)
          cases.push_back({fmt::format("{}_{}_and_{}", kind == OptimizerKind::adam ? "adam" : "adamw", name1, name2),
                           {.kind = kind, .weight_decay = 0.01, .beta1 = beta1, .beta2 = beta2}});
    return cases;
  }();
  return all;
}

UpdateErrors update_errors(const ComparedBackend& tested, const OptimizerArgs& args) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  // Every other weight starts at zero: there, nothing hides an error of the update.
  std::vector<float> values(kWeights);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = normal(random);
  ExactOptimizer exact(args, values);
  UpdatedTensors tensors(args, values, std::vector<float>(kWeights));
  OpRun run{.backend = tested.backend, .device = tested.device};
  UpdateErrors errors;
  for (int update = 1; update <= 10; ++update) {
    // Gradients of one sign: sums of both would be smaller than what they are made of.
    for (float& gradient : values) gradient = 0.1f + std::abs(normal(random));
    run.context.learning_rate = 0.01 * update;
    run.context.updates = update;
    tensors.update(run, values);
    exact.update(values, run.context.learning_rate);
    if (update == 1) errors.first = ulps_between(tensors.in[0], exact.weights());
    if (update == 10) errors.tenth = ulps_between(tensors.in[0], exact.weights());
  }
  return errors;
}

double decay_error(const ComparedBackend& tested, const OptimizerArgs& args) {
  constexpr int kUpdates = 1000;
  std::mt19937 random(6);
  std::uniform_real_distribution<float> draw(0.5f, 1.0f);
  std::vector<float> initial(kWeights);
  for (float& value : initial) value = draw(random);
  const std::vector<float> zeros(kWeights);
  UpdatedTensors tensors(args, zeros, initial);
  OpRun run{.backend = tested.backend, .device = tested.device};
  run.context.learning_rate = 1e-3;
  for (int update = 1; update <= kUpdates; ++update) {
    run.context.updates = update;
    tensors.update(run, zeros);
  }
  const bool adam = args.kind == OptimizerKind::adam || args.kind == OptimizerKind::adamw;
  double largest = 0;
  for (std::size_t state = 2; state < tensors.in.size(); ++state) {
    const double decay = !adam ? args.momentum : state == 2 ? args.beta1 : args.beta2;
    double left = 0, exact = 0;
    for (std::size_t i = 0; i < initial.size(); ++i) {
      left += tensors.in[state].number(i);
      exact += initial[i] * std::pow(decay, kUpdates);
    }
    largest = std::max(largest, std::abs(left / exact - 1));
  }
  return largest;
}

}  // namespace trifold::test
