// Layer norm as one chain a case: forward, also as evaluation runs it, and both gradients.
#include <fmt/format.h>

#include "kernels/ops/layer_norm.h"
#include "support/op_case_builder.h"

namespace trifold::test {
namespace {

OpCase layer_norm_case(const Shape& shape, Draw draw = Draw::normal) {
  OpCaseBuilder b(fmt::format("layer_norm_{}{}", to_string(shape), draw == Draw::far ? "_far" : ""));
  const Shape channels{shape.channels()};
  const Shape statistics{shape.batch(), shape.pixels()};
  const int x = b.activation("x", shape, draw);
  const int weight = b.parameter("weight", channels);
  const int bias = b.parameter("bias", channels);
  const int dy = b.activation("dy", shape);
  const int y = b.made("y", shape);
  const int mean = b.made("mean", statistics);
  const int istd = b.made("istd", statistics);
  const int dx = b.made("dx", shape);
  const int dweight = b.made("dweight", channels);
  const int dbias = b.made("dbias", channels);
  LayerNormForward forward;
  forward.eps = 1e-3;
  LayerNormForward evaluation = forward;
  evaluation.keep_statistics = false;
  b.step(forward, {x, weight, bias}, {y, mean, istd});
  b.step(evaluation, {x, weight, bias}, {b.made("y_evaluation", shape)});
  b.step(LayerNormBackwardParameters(), {dy, x, mean, istd}, {dweight, dbias});
  b.step(LayerNormBackwardInput(), {dy, x, mean, istd, weight}, {dx});
  if (draw == Draw::normal && shape.channels() > 1)
    b.objective(y, dy).gradient(x, dx).gradient(weight, dweight).gradient(bias, dbias);
  return b.build();
}

void add_layer_norm_cases(std::vector<OpCase>& cases) {
  for (const Shape& shape :
       {Shape{2, 5, 3, 3}, Shape{3, 16, 4, 5}, Shape{2, 24, 7, 7}, Shape{1, 3, 9, 11}, Shape{1, 96, 2, 2},
        Shape{2, 32, 1, 1}, Shape{2, 80, 1, 6}, Shape{2, 1, 4, 4}, Shape{5, 7}, Shape{3, 64}, Shape{2, 1029}})
    cases.push_back(layer_norm_case(shape));
  for (const Shape& shape : {Shape{2, 7, 5, 9}, Shape{2, 48, 3, 5}, Shape{9, 100}})
    cases.push_back(layer_norm_case(shape, Draw::far));
}

const RegisterOpCases register_layer_norm_cases(add_layer_norm_cases);

}  // namespace
}  // namespace trifold::test
