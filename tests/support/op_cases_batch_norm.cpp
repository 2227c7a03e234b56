// Batch norm as one chain a case: statistics, apply, reduce, input gradient, with every fusion flag.
#include <fmt/format.h>

#include "kernels/ops/batch_norm.h"
#include "support/op_case_builder.h"

namespace trifold::test {
namespace {

struct Fusion {
  std::string name;
  bool relu = false;
  bool residual = false;
  bool second_gradient = false;
  bool write_d = false;
};

// A mask large enough for a backend that starts every plane at a whole byte.
Shape mask_shape(const Shape& x) {
  return {x.batch() * x.channels() * ((x.pixels() + 7) / 8)};
}

OpCase training_case(const Shape& x_shape, std::int64_t group, const Fusion& fusion, Draw draw = Draw::normal) {
  OpCaseBuilder b(fmt::format("batch_norm_{}_group_{}_{}", to_string(x_shape), group, fusion.name));
  const Shape channels{x_shape.channels()};
  const Shape statistics{x_shape.batch() / group, x_shape.channels()};
  const bool bits = fusion.relu && fusion.residual;

  const int x = b.activation("x", x_shape, draw);
  const int gamma = b.parameter("gamma", channels, Draw::positive);
  const int beta = b.parameter("beta", channels);
  const int running_mean = b.parameter("running_mean", channels);
  const int running_var = b.parameter("running_var", channels, Draw::positive);
  const int dy = b.activation("dy", x_shape);
  const int mean = b.made("mean", statistics);
  const int istd = b.made("istd", statistics);
  const int y = b.made("y", x_shape);
  const int sum_d = b.made("sum_d", statistics);
  const int sum_dx = b.made("sum_dx", statistics);
  const int dgamma = b.made("dgamma", channels);
  const int dbeta = b.made("dbeta", channels);
  const int dx = b.made("dx", x_shape);

  BatchNormStatistics take;
  take.group = group;
  b.step(take, {x, running_mean, running_var}, {mean, istd, running_mean, running_var});

  BatchNormApply apply;
  apply.group = group;
  apply.relu = fusion.relu;
  apply.residual = fusion.residual;
  std::vector<int> apply_in = {x, mean, istd, gamma, beta};
  std::vector<int> apply_out = {y};
  if (fusion.residual) apply_in.push_back(b.activation("residual", x_shape));
  if (bits) apply_out.push_back(b.opaque("mask", mask_shape(x_shape)));
  b.step(apply, apply_in, apply_out).objective(y, dy);

  BatchNormBackwardReduce reduce;
  reduce.group = group;
  reduce.mask = bits ? ReluMask::bits : fusion.relu ? ReluMask::from_x : ReluMask::none;
  reduce.second_gradient = fusion.second_gradient;
  reduce.write_d = fusion.write_d;
  std::vector<int> reduce_in = {dy, x, mean, istd, gamma, beta};
  std::vector<int> reduce_out = {sum_d, sum_dx, dgamma, dbeta};
  if (fusion.second_gradient) {
    reduce_in.push_back(b.activation("dy2", x_shape));
    b.objective(y, reduce_in.back());
  }
  if (bits) reduce_in.push_back(apply_out[1]);
  if (fusion.write_d) {
    reduce_out.push_back(b.made("d", x_shape));
    // Past a residual d is the gradient of the other branch.
    if (fusion.residual) b.gradient(apply_in[5], reduce_out[4]);
  }
  b.step(reduce, reduce_in, reduce_out);

  BatchNormBackwardInput input;
  input.group = group;
  input.mask = fusion.write_d ? ReluMask::none : reduce.mask;
  b.step(input, {fusion.write_d ? reduce_out[4] : dy, x, mean, istd, gamma, beta, sum_d, sum_dx}, {dx});
  b.gradient(x, dx).gradient(gamma, dgamma).gradient(beta, dbeta);
  return b.build();
}

// Values whose mean is 10,000 times their deviation: differences of large numbers show here. (Finite differences of
// them show nothing.)
OpCase far_case(const Shape& x_shape, std::int64_t group, const Fusion& fusion) {
  OpCase far = training_case(x_shape, group, fusion, Draw::far);
  far.name += "_far";
  far.objectives.clear();
  far.gradients.clear();
  return far;
}

OpCase evaluation_case(const Shape& x_shape) {
  OpCaseBuilder b(fmt::format("batch_norm_running_{}", to_string(x_shape)));
  const Shape channels{x_shape.channels()};
  const int x = b.activation("x", x_shape);
  const int running_mean = b.parameter("running_mean", channels);
  const int running_var = b.parameter("running_var", channels, Draw::positive);
  const int gamma = b.parameter("gamma", channels, Draw::positive);
  const int beta = b.parameter("beta", channels);
  const int residual = b.activation("residual", x_shape);
  const int mean = b.made("mean", {1, x_shape.channels()});
  const int istd = b.made("istd", {1, x_shape.channels()});
  b.step(BatchNormRunning(), {running_mean, running_var}, {mean, istd});
  BatchNormApply apply;
  apply.group = x_shape.batch();
  b.step(apply, {x, mean, istd, gamma, beta}, {b.made("y", x_shape)});
  // Evaluation keeps no mask for a backward part that never comes.
  apply.relu = true;
  apply.residual = true;
  b.step(apply, {x, mean, istd, gamma, beta, residual}, {b.made("y_fused", x_shape)});
  return b.build();
}

// The sums are of a group that lies on several replicas, of which this one has a part, or of whole images (`pixels`) of
// which x has some rows.
OpCase spanning_case(const Shape& x_shape, int span, std::int64_t pixels = 0) {
  OpCaseBuilder b(fmt::format("batch_norm_spanning_{}_{}", to_string(x_shape), span));
  const Shape channels{x_shape.channels()};
  const Shape groups{1, x_shape.channels()};
  const int d = b.activation("d", x_shape);
  const int x = b.activation("x", x_shape);
  const int mean = b.parameter("mean", groups);
  const int istd = b.parameter("istd", groups, Draw::positive);
  const int gamma = b.parameter("gamma", channels, Draw::positive);
  const int beta = b.parameter("beta", channels);
  const int sum_d = b.parameter("sum_d", groups);
  const int sum_dx = b.parameter("sum_dx", groups);
  BatchNormBackwardInput input;
  input.group = x_shape.batch();
  input.span = span;
  input.pixels = pixels;
  b.step(input, {d, x, mean, istd, gamma, beta, sum_d, sum_dx}, {b.made("dx", x_shape)});
  return b.build();
}

void add_batch_norm_cases(std::vector<OpCase>& cases) {
  const Fusion plain{"plain"};
  const Fusion fusions[] = {plain,
                            {"relu", true},
                            {"residual", false, true},
                            {"residual_relu", true, true, false, true},
                            {"two_gradients", false, false, true, true},
                            {"relu_write", true, false, false, true},
                            {"relu_two_gradients", true, false, true, true},
                            {"residual_relu_two_gradients", true, true, true, true}};
  for (const Fusion& fusion : fusions) {
    cases.push_back(training_case({4, 5, 3, 3}, 4, fusion));
    cases.push_back(training_case({4, 16, 4, 4}, 2, fusion));
    cases.push_back(training_case({6, 10}, 3, fusion));
  }
  cases.push_back(training_case({2, 3, 7, 5}, 1, plain));
  cases.push_back(training_case({6, 24, 5, 3}, 1, fusions[3]));
  cases.push_back(training_case({8, 32, 2, 2}, 4, fusions[1]));
  cases.push_back(training_case({1, 8, 6, 6}, 1, plain));
  cases.push_back(training_case({16, 64}, 16, fusions[1]));
  cases.push_back(training_case({3, 1, 9, 9}, 3, fusions[3]));
  for (const Fusion& fusion : {plain, fusions[1], fusions[3]}) {
    cases.push_back(far_case({4, 5, 13, 11}, 4, fusion));
    cases.push_back(far_case({4, 32, 8, 8}, 2, fusion));
    cases.push_back(far_case({64, 37}, 64, fusion));
  }
  cases.push_back(evaluation_case({3, 5, 4, 3}));
  cases.push_back(evaluation_case({2, 16, 3, 3}));
  cases.push_back(evaluation_case({1, 7}));
  cases.push_back(spanning_case({4, 5, 3, 3}, 2));
  cases.push_back(spanning_case({2, 16, 4, 4}, 4));
  cases.push_back(spanning_case({4, 16, 2, 4}, 1, 16));
}

const RegisterOpCases register_batch_norm_cases(add_batch_norm_cases);

}  // namespace
}  // namespace trifold::test
