#include "support/training.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/philox.h"

namespace trifold::test {
namespace {

void fill_batch(Executable& program, std::int64_t first_sample, std::int64_t samples) {
  const Graph& graph = program.program().graph;
  const std::int64_t elements = graph[graph.images].shape.elements() / samples;
  const auto classes = static_cast<std::uint32_t>(graph[graph.output].shape[1]);
  for (std::int64_t n = 0; n < samples; ++n) {
    RandomSequence random(7, Purpose::synthetic, 0, static_cast<std::uint64_t>(first_sample + n));
    for (std::int64_t i = 0; i < elements; ++i) program.images()[n * elements + i] = random.uniform(-1, 1);
    program.labels()[n] = static_cast<std::int32_t>(random.below(classes));
  }
}

}  // namespace

double run_step(Model& model, const ModelOptions& options, int step) {
  Executable& program = model.training();
  const std::int64_t micro = options.micro_batch();
  StepContext context{.seed = 9, .first_sample = step * options.batch, .learning_rate = 0.05, .updates = step + 1};
  if (options.accumulate == 1) {
    fill_batch(program, context.first_sample, micro);
    program.step(context);
    return program.loss();
  }
  double loss = 0;
  for (std::int64_t part = 0; part < options.accumulate; ++part) {
    context.first_sample = step * options.batch + part * micro;
    fill_batch(program, context.first_sample, micro);
    program.run(context);
    loss += program.loss();
    program.accumulate(part == 0, context);
  }
  program.update(context);
  return loss;
}

Trained train_network(const NetworkSpec& spec, const ModelOptions& options, int steps) {
  Model model = make_model(spec, options);
  model.initialize(3);
  Trained trained;
  for (int step = 0; step < steps; ++step) trained.losses.push_back(run_step(model, options, step));
  const Executable& program = model.training();
  for (const Parameter& parameter : program.program().graph.parameters)
    trained.parameters.push_back(program.read(parameter.value));

  // Evaluation reads the same parameters, wherever its own program wants them.
  Executable& evaluation = model.evaluation();
  const Graph& graph = evaluation.program().graph;
  std::fill_n(evaluation.images(), graph[graph.images].shape.elements(), 0.25f);
  std::fill_n(evaluation.labels(), options.micro_batch(), 0);
  evaluation.run({});
  trained.losses.push_back(evaluation.loss());
  return trained;
}

std::vector<float> first_parameter(Model& model) {
  return model.training().read(model.training().program().graph.parameters.front().value);
}

void expect_same(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::abs(a.losses[i])) << "step " << i;
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t p = 0; p < a.parameters.size(); ++p) {
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < a.parameters[p].size(); ++i) {
      largest = std::max<double>(largest, std::abs(a.parameters[p][i]));
      difference = std::max<double>(difference, std::abs(a.parameters[p][i] - b.parameters[p][i]));
    }
    EXPECT_LE(difference, tolerance * std::max(largest, 0.1)) << "parameter " << p;
  }
}

}  // namespace trifold::test
