// Losses, log-softmax, and the updates over flat parameter buffers.
#include <fmt/format.h>

#include "kernels/ops/loss.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/shape_ops.h"
#include "support/op_case_builder.h"

namespace trifold::test {
namespace {

OpCase log_softmax_case(const Shape& shape, Draw draw) {
  OpCaseBuilder b(fmt::format("log_softmax_{}{}", to_string(shape), draw == Draw::wide ? "_wide" : ""));
  const int x = b.activation("x", shape, draw);
  const int dy = b.activation("dy", shape);
  const int y = b.made("y", shape);
  const int dx = b.made("dx", shape);
  b.step(LogSoftmaxForward(), {x}, {y}).step(LogSoftmaxBackward(), {dy, y}, {dx});
  if (draw == Draw::normal) b.objective(y, dy).gradient(x, dx);
  return b.build();
}

OpCase cross_entropy_case(const std::string& name, const Shape& logits, CrossEntropy op, Draw labels,
                          Draw draw = Draw::normal) {
  OpCaseBuilder b("cross_entropy_" + name);
  CrossEntropy evaluation = op;
  evaluation.gradient = false;
  const int x = b.activation("logits", logits, draw);
  const int y = b.labels(labels, logits[0], logits[1]);
  const int report = b.made("report", {2}, DType::f64);
  const int dx = b.made("gradient", logits);
  b.step(evaluation, {x, y}, {b.made("report_evaluation", {2}, DType::f64)});
  b.step(op, {x, y}, {report, dx});
  if (draw == Draw::normal) b.objective(report).gradient(x, dx);
  return b.build();
}

OpCase mse_case(const std::string& name, const Shape& shape, std::int64_t global_batch, Draw labels) {
  OpCaseBuilder b("mse_" + name);
  MeanSquares op;
  op.global_batch = global_batch;
  MeanSquares evaluation = op;
  evaluation.gradient = false;
  const int y = b.activation("y", shape);
  const int targets = b.activation("targets", shape);
  const int present = b.labels(labels, shape[0], 1);
  const int report = b.made("report", {2}, DType::f64);
  const int dy = b.made("gradient", shape);
  b.step(evaluation, {y, targets, present}, {b.made("report_evaluation", {2}, DType::f64)});
  b.step(op, {y, targets, present}, {report, dy}).objective(report).gradient(y, dy);
  return b.build();
}

// Adam's second state is a mean of squares, and Adagrad's a sum of them; a mean, and a velocity, may have either sign.
Draw draw_of_state(const OptimizerUpdate& op, int state) {
  return state == 1 || op.args.kind == OptimizerKind::adagrad ? Draw::positive : Draw::normal;
}

OpCase optimizer_case(const std::string& name, const OptimizerArgs& args) {
  OpCaseBuilder b("optimizer_" + name);
  OptimizerUpdate op;
  op.args = args;
  op.segments = {{0, 513, true}, {513, 520, false}, {520, 521, true}, {521, 1000, true}, {1000, 1013, false}};
  const Shape flat{1013};
  const int parameters = b.parameter("parameters", flat);
  const int gradients = b.parameter("gradients", flat);
  std::vector<int> in = {parameters, gradients};
  std::vector<int> out = {parameters};
  for (int state = 0; state < op.state_count(); ++state) {
    in.push_back(b.parameter(fmt::format("state{}", state), flat, draw_of_state(op, state)));
    out.push_back(in.back());
  }
  out.push_back(b.made("norm", {1}, DType::f64));
  b.step(op, in, out);
  return b.build();
}

enum class Gradients { finite, infinite };

// Two updates of a step, each of some of the parameters, after a look at the gradients of both.
OpCase parted_case(const std::string& name, const OptimizerArgs& args, Gradients gradients_are) {
  OpCaseBuilder b("optimizer_parted_" + name);
  GradientSquares squares_op;
  squares_op.segments = {{0, 513, true}, {520, 1013, false}};
  const int squares = b.made("squares", {1});
  const int all =
      b.parameter("gradients", {1013}, gradients_are == Gradients::finite ? Draw::normal : Draw::one_infinite);
  b.step(squares_op, {all}, {squares});
  const int scale = b.parameter("loss scale", {kLossScaleFloats}, Draw::loss_scale);
  for (const bool last : {false, true}) {
    OptimizerUpdate op;
    op.args = args;
    op.scaling = LossScaling{.growth_interval = 4};
    op.squares_given = true;
    op.moves_scale = last;
    op.segments = {{0, 50, true}, {50, 77, false}};
    const auto part = [&](const char* what, Draw draw = Draw::normal) {
      return b.parameter(fmt::format("{} {}", what, last ? "last" : "first"), {77}, draw);
    };
    const int parameters = part("parameters");
    std::vector<int> in = {parameters, part("part of gradients")};
    std::vector<int> out = {parameters};
    for (int state = 0; state < op.state_count(); ++state) {
      in.push_back(part(state == 0 ? "state0" : "state1", draw_of_state(op, state)));
      out.push_back(in.back());
    }
    in.push_back(scale);
    in.push_back(squares);
    out.push_back(scale);
    out.push_back(b.made(last ? "norm last" : "norm first", {1}, DType::f64));
    b.step(op, in, out);
  }
  return b.build();
}

// One update with a loss scale of 1024, one good update before it doubles.
OpCase scaled_case(const std::string& name, const OptimizerArgs& args, Gradients gradients_are) {
  OpCaseBuilder b("optimizer_scaled_" + name);
  OptimizerUpdate op;
  op.args = args;
  op.segments = {{0, 704, true}, {704, 1008, false}};
  op.scaling = LossScaling{.growth_interval = 4};
  const Shape flat{1008};
  const int parameters = b.parameter("parameters", flat);
  const int gradients =
      b.parameter("gradients", flat, gradients_are == Gradients::finite ? Draw::normal : Draw::one_infinite);
  std::vector<int> in = {parameters, gradients};
  std::vector<int> out = {parameters};
  for (int state = 0; state < op.state_count(); ++state) {
    in.push_back(b.parameter(fmt::format("state{}", state), flat, draw_of_state(op, state)));
    out.push_back(in.back());
  }
  in.push_back(b.parameter("loss scale", {kLossScaleFloats}, Draw::loss_scale));
  out.push_back(in.back());
  out.push_back(b.made("norm", {1}, DType::f64));
  b.step(op, in, out);
  return b.build();
}

OpCase cast_case(DType type, const Shape& shape, bool scaled) {
  OpCaseBuilder b(fmt::format("cast_{}_{}{}", name_of(type), shape.elements(), scaled ? "_scaled" : ""));
  const int x = b.activation("x", shape, scaled ? Draw::normal : Draw::wide);  // times 1024, f16 holds the normal ones
  const int y = b.made("y", shape, type);
  const int back = b.made("back", shape);
  Cast op;
  op.scaled = scaled;
  std::vector<int> in = {x};
  if (scaled) in.push_back(b.parameter("loss scale", {kLossScaleFloats}, Draw::loss_scale));
  b.step(op, in, {y});
  b.step(Cast(), {y}, {back});
  return b.build();
}

OpCase zero_lars_case() {
  OpCaseBuilder b("optimizer_lars_of_zeros");
  OptimizerUpdate op;
  op.args = {.kind = OptimizerKind::lars, .momentum = 0.9, .weight_decay = 0.01};
  op.segments = {{0, 40, true}};
  const int parameters = b.parameter("parameters", {40}, Draw::zeros);
  const int gradients = b.parameter("gradients", {40});
  const int velocity = b.parameter("velocity", {40}, Draw::zeros);
  b.step(op, {parameters, gradients, velocity}, {parameters, velocity, b.made("norm", {1}, DType::f64)});
  return b.build();
}

OpCase accumulate_case() {
  OpCaseBuilder b("optimizer_accumulate");
  AccumulateGradients first;
  first.first = true;
  const int sum = b.parameter("sum", {777});
  const int gradients = b.parameter("gradients", {777});
  b.step(AccumulateGradients(), {sum, gradients}, {sum});
  b.step(first, {sum, gradients}, {sum});
  return b.build();
}

void add_loss_cases(std::vector<OpCase>& cases) {
  cases.push_back(log_softmax_case({5, 10}, Draw::normal));
  cases.push_back(log_softmax_case({3, 37}, Draw::normal));
  cases.push_back(log_softmax_case({4, 10}, Draw::wide));
  cases.push_back(log_softmax_case({5, 1100}, Draw::wide));

  CrossEntropy op;
  op.global_batch = 6;
  cases.push_back(cross_entropy_case("plain", {6, 10}, op, Draw::labels));
  cases.push_back(cross_entropy_case("absent_rows", {7, 10}, op, Draw::some_labels));
  cases.push_back(cross_entropy_case("wide", {6, 21}, op, Draw::labels, Draw::wide));
  cases.push_back(cross_entropy_case("ties", {6, 5}, op, Draw::labels, Draw::few));
  op.global_batch = 64;
  cases.push_back(cross_entropy_case("many_classes", {4, 1003}, op, Draw::labels));
  cases.push_back(cross_entropy_case("most_classes", {5, 1100}, op, Draw::some_labels, Draw::wide));
  op.smoothing = 0.1;
  cases.push_back(cross_entropy_case("smoothing", {5, 10}, op, Draw::some_labels));
  op.class_weights = {0.5f, 2.0f, 1.0f, 0.0f, 3.0f};
  cases.push_back(cross_entropy_case("smoothing_weights", {9, 5}, op, Draw::some_labels));
  op.log_input = true;
  cases.push_back(cross_entropy_case("of_log_probabilities_weights", {9, 5}, op, Draw::labels));
  op.class_weights.clear();
  op.smoothing = 0;
  cases.push_back(cross_entropy_case("of_log_probabilities", {7, 10}, op, Draw::some_labels));

  cases.push_back(mse_case("plain", {6, 5}, 6, Draw::labels));
  cases.push_back(mse_case("absent_rows", {7, 33}, 28, Draw::some_labels));

  cases.push_back(optimizer_case("sgd", {}));
  cases.push_back(optimizer_case("sgd_decay", {.weight_decay = 0.01}));
  cases.push_back(optimizer_case("sgd_momentum", {.momentum = 0.9, .weight_decay = 0.01}));
  cases.push_back(optimizer_case("sgd_nesterov", {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}));
  cases.push_back(optimizer_case("sgd_clip", {.momentum = 0.9, .clip_norm = 1.5}));
  cases.push_back(optimizer_case("sgd_clip_idle", {.momentum = 0.9, .clip_norm = 1e4}));
  cases.push_back(optimizer_case("adam", {.kind = OptimizerKind::adam, .weight_decay = 0.01}));
  cases.push_back(optimizer_case("adamw", {.kind = OptimizerKind::adamw, .weight_decay = 0.01}));
  cases.push_back(
      optimizer_case("adamw_clip", {.kind = OptimizerKind::adamw, .beta1 = 0.8, .beta2 = 0.95, .clip_norm = 2}));
  cases.push_back(optimizer_case("adagrad", {.kind = OptimizerKind::adagrad, .weight_decay = 0.01, .eps = 1e-10}));
  cases.push_back(
      optimizer_case("adagrad_clip", {.kind = OptimizerKind::adagrad, .initial_accumulator = 0.5, .clip_norm = 2}));
  cases.push_back(optimizer_case("lars", {.kind = OptimizerKind::lars, .momentum = 0.9, .weight_decay = 0.01}));
  cases.push_back(
      optimizer_case("lars_clip", {.kind = OptimizerKind::lars, .weight_decay = 0.01, .trust = 0.1, .clip_norm = 3}));
  cases.push_back(scaled_case("sgd", {.momentum = 0.9, .weight_decay = 0.01}, Gradients::finite));
  cases.push_back(scaled_case("sgd_overflow", {.momentum = 0.9, .weight_decay = 0.01}, Gradients::infinite));
  cases.push_back(scaled_case("sgd_clip", {.clip_norm = 1e-3}, Gradients::finite));
  cases.push_back(scaled_case("adam", {.kind = OptimizerKind::adam}, Gradients::finite));
  cases.push_back(scaled_case("adagrad", {.kind = OptimizerKind::adagrad}, Gradients::finite));
  cases.push_back(scaled_case("adamw_overflow", {.kind = OptimizerKind::adamw}, Gradients::infinite));
  cases.push_back(parted_case("sgd_clip", {.momentum = 0.9, .clip_norm = 2}, Gradients::finite));
  cases.push_back(parted_case("plain", {}, Gradients::infinite));
  cases.push_back(parted_case("adamw", {.kind = OptimizerKind::adamw, .clip_norm = 0.1}, Gradients::finite));
  cases.push_back(scaled_case("lars", {.kind = OptimizerKind::lars, .weight_decay = 0.01}, Gradients::finite));
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(cast_case(type, {2, 16, 5, 3}, false));
    cases.push_back(cast_case(type, {1, 1001}, true));
  }
  cases.push_back(zero_lars_case());
  cases.push_back(accumulate_case());
}

const RegisterOpCases register_loss_cases(add_loss_cases);

}  // namespace
}  // namespace trifold::test
