// Networks whose training or evaluation was once wrong although every op was right: the fault was in what a pass made
// of them. Each is held to the reference backend without fusion.
#include <ostream>

#include <gtest/gtest.h>

#include "core/parallel.h"
#include "support/networks.h"
#include "support/training.h"

namespace trifold {
namespace {

using test::LayerEntry;
using test::network;
using test::Trained;

using Layers = std::vector<LayerEntry>;

LayerEntry conv(const std::string& id, std::int64_t out, std::int64_t kernel, std::int64_t pad,
                std::int64_t groups = 1) {
  return {
      id, "conv2d", {}, {{"out", out}, {"kernel", Pair{kernel, kernel}}, {"pad", Pair{pad, pad}}, {"groups", groups}}};
}
LayerEntry linear(const std::string& id = "fc") {
  return {id, "linear", {}, {{"out", std::int64_t{3}}}};
}

Layers operator+(Layers a, const Layers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void expect_as_reference(const NetworkSpec& spec) {
  ModelOptions options;
  options.batch = 6;
  options.backend = &reference_backend();
  options.fuse = false;
  options.recompute = Recompute::never;
  const Trained expected = test::train_network(spec, options, 3);
  options.backend = &cpu_backend();
  options.threads = thread_count();
  options.fuse = true;
  options.recompute = Recompute::cheap;
  test::expect_same(expected, test::train_network(spec, options, 3), 2e-5);
}

// The residual sum's ReLU leaves a bit mask in the order of its blocked image. What reads the ReLU makes the gradient
// arrive in plain order.
struct Readers {
  const char* name;
  Layers layers;
  friend void PrintTo(const Readers& readers, std::ostream* out) { *out << readers.name; }
};
class MaskedResidual : public ::testing::TestWithParam<Readers> {};

TEST_P(MaskedResidual, TrainsAsTheReferenceDoes) {
  const Layers residual = {
      conv("c0", 16, 1, 0), conv("c1", 16, 3, 1), {"bn", "batch_norm"}, {"sum", "add", {"bn", "c0"}}, {"relu", "relu"}};
  expect_as_reference(network({2, 6, 6}, 3, residual + GetParam().layers));
}

INSTANTIATE_TEST_SUITE_P(
    Readers, MaskedResidual,
    ::testing::Values(
        Readers{"flatten_dropout", Layers{{"flat", "flatten"}, {"drop", "dropout"}, linear()}},
        Readers{"concat_of_3_channels",
                Layers{conv("c2", 3, 1, 0), {"join", "concat", {"relu", "c2"}}, {"pool", "global_avg_pool"}, linear()}},
        Readers{"grouped_convolution", Layers{conv("c2", 16, 3, 1, 4), {"flat", "flatten"}, linear()}},
        Readers{"avg_pool_flatten_dropout", Layers{{"pool", "avg_pool", {}, {{"kernel", Pair{2, 2}}}},
                                                   {"flat", "flatten"},
                                                   {"drop", "dropout"},
                                                   linear()}},
        Readers{"flatten_read_twice",
                Layers{{"flat", "flatten"}, linear("a"), linear("b"), {"both", "add", {"a", "b"}}}}),
    [](const auto& each) { return std::string(each.param.name); });

// The pool's input is a sum, not the ReLU's output: its sign says nothing about the ReLU.
TEST(ReluBeforePool, PassesItsOwnGradientWhereASumComesBetween) {
  expect_as_reference(network({3, 8, 8}, 3,
                              {conv("c", 3, 3, 1),
                               {"relu", "relu"},
                               {"sum", "add", {"relu", "input"}},
                               {"pool", "max_pool", {}, {{"kernel", Pair{2, 2}}}},
                               {"flat", "flatten"},
                               linear()}));
}

// In evaluation dropout is a view, and so is flatten: a view of a view of the images.
TEST(ViewsOfTheInput, EvaluateTheImagesInEitherOrder) {
  ModelOptions options;
  options.backend = &cpu_backend();
  options.batch = 4;
  const auto evaluate = [&](const Layers& layers) {
    return test::train_network(network({1, 4, 4}, 3, layers), options, 0).losses.back();
  };
  const double expected = evaluate({{"flat", "flatten"}, linear()});
  EXPECT_FLOAT_EQ(evaluate({{"flat", "flatten"}, {"drop", "dropout"}, linear()}), expected);
  EXPECT_FLOAT_EQ(evaluate({{"drop", "dropout"}, {"flat", "flatten"}, linear()}), expected);
}

}  // namespace
}  // namespace trifold
