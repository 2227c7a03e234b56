#include "kernels/cpu/bf16.h"

#include <csignal>

#include <gtest/gtest.h>

#include "kernels/ops/linear.h"

namespace trifold::cpu {
namespace {

TEST(FailureInChild, SaysWhatHappened) {
  EXPECT_EQ(failure_in_child([] { return true; }), "");
  EXPECT_EQ(failure_in_child([] { return false; }), "oneDNN has no right result with them");
  EXPECT_EQ(failure_in_child([]() -> bool { throw 1; }), "oneDNN has no right result with them");
  EXPECT_EQ(failure_in_child([] { return std::raise(SIGILL) == 0; }), "trying them ended with 'Illegal instruction'");
}

// Whichever it is on this machine: kernels of bf16 exactly where the processor passed the trial.
TEST(Bf16, KernelsAreOfferedWhereTheProcessorExecutesThem) {
  LinearForward op;
  op.bias = false;
  const TensorDesc x{{8, 32}, DType::bf16};
  const TensorDesc w{{16, 32}, DType::bf16};
  const std::vector<TensorDesc> in = {x, w};
  const std::vector<TensorDesc> out = {{{8, 16}, DType::bf16}};
  EXPECT_EQ(bf16_candidates({.op = op, .in = in, .out = out}).empty(), !why_no_bf16().empty()) << why_no_bf16();
}

TEST(Bf16, OtherTypesHaveNone) {
  const LinearForward op;
  const std::vector<TensorDesc> in = {TensorDesc{{8, 32}}, TensorDesc{{16, 32}}};
  const std::vector<TensorDesc> out = {TensorDesc{{8, 16}}};
  EXPECT_TRUE(bf16_candidates({.op = op, .in = in, .out = out}).empty());
}

}  // namespace
}  // namespace trifold::cpu
