// Plans that a network cannot be folded by: the sentence says what would work.
#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

std::string refusal(const NetworkSpec& network, const PlanConfig& plan, FoldOptions options = {}) {
  try {
    ParallelModel model(fold_job(network, plan, options));
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    return error.what();
  }
  return "accepted";
}

TEST(FoldedRefusal, SaysWhatWouldWork) {
  FoldOptions odd;
  odd.batch = 15;
  odd.bn_group = 1;
  EXPECT_EQ(refusal(small_tutorial(), {.dp = 2}, odd),
            "fold.json: a batch of 15 does not divide into 1 micro-batches of 2 replicas; 14 or 16 would work");
  EXPECT_NE(refusal(small_resnet(), {.pp = 2, .micro_batches = 8}).find("the largest group that works is 2"),
            std::string::npos);
  EXPECT_NE(refusal(small_tutorial(), {.pp = 64}).find("at most one a layer"), std::string::npos);
  EXPECT_NE(refusal(small_tutorial(), {.pp = 2, .stages = {1, 1}}).find("plan.stages has 2 layers"), std::string::npos);
  EXPECT_NE(refusal(small_resnet(), {.tp = 2, .split = {{"fc", "out_channels"}}})
                .find("cannot be split by out_channels into 2 parts"),
            std::string::npos);
  EXPECT_EQ(refusal(small_mobilenet(), {.tp = 4, .split = {{"*", "rows"}}}),
            "test: dw2: layer 'dw2' (conv2d), from 6 to 3 rows, cannot be split by rows into 4 parts of a row or more; "
            "use a plan.tp of at most 3, or \"by\": \"none\" for it");
  EXPECT_EQ(refusal(small_mobilenet(), {.tp = 2, .split = {{"dw1", "out_channels"}}}),
            "test: dw1: layer 'dw1' (conv2d), from 8 to 8 channels, cannot be split by out_channels into 2 parts; use "
            "\"by\": \"groups\" or \"none\" for it");
  EXPECT_EQ(refusal(small_mobilenet(), {.tp = 3, .split = {{"dw1", "out_channels"}}}),
            "test: dw1: layer 'dw1' (conv2d), from 8 to 8 channels, cannot be split by out_channels into 3 parts; use "
            "a plan.tp such as 2 with \"by\": \"groups\", or \"by\": \"none\" for it");
  EXPECT_EQ(refusal(small_tutorial(), {.tp = 2, .split = {{"fc1", "blocks"}}}),
            "test: fc1: layer 'fc1' (linear) cannot be split by blocks among 2 ranks, which make no square; use a "
            "plan.tp of 4, 9 or 16");
  EXPECT_EQ(
      refusal(small_vgg(), {.tp = 4, .split = {{"fc2", "blocks"}}}),
      "test: fc2: layer 'fc2' (linear), from 40 to 7 features of 16 samples, cannot be split into 2 by 2 blocks; 2 "
      "must divide all three, or use \"by\": \"none\" for it");
  EXPECT_NE(refusal(small_vgg(), {.tp = 4, .split = {{"conv1", "blocks"}}}).find("which only linear layers can"),
            std::string::npos);
  FoldOptions lars;
  lars.optimizer.kind = OptimizerKind::lars;
  EXPECT_NE(refusal(small_tutorial(), {.tp = 2}, lars).find("lars needs the norm of whole parameters"),
            std::string::npos);
  EXPECT_EQ(refusal(small_tutorial(), {.pp = 2, .micro_batches = 2}, lars), "accepted");
  EXPECT_NE(refusal(small_tutorial(), {.dp = 2, .zero = 1}, lars).find("plan.zero=0"), std::string::npos);
  lars.optimizer.clip_norm = 1;
  EXPECT_NE(refusal(small_tutorial(), {.pp = 2, .micro_batches = 2}, lars).find("lars with train.clip_norm"),
            std::string::npos);
  NetworkSpec half = small_tutorial();
  half.layers.front().values.set("precision", std::string("fp16"));
  EXPECT_NE(
      refusal(half, {.pp = 2, .schedule = "interleaved", .micro_batches = 4, .chunks = 2}).find("set plan.chunks to 1"),
      std::string::npos);
  const auto cut = [&](std::vector<std::string> after) {
    return refusal(small_tutorial(), {.pp = 2, .micro_batches = 2, .cut_after = std::move(after)});
  };
  EXPECT_NE(cut({"relu1", "flat"}).find("plan.cut_after names 2 layers, but plan.pp times plan.chunks is 2 parts"),
            std::string::npos);
  EXPECT_NE(cut({"nobody"}).find("no layer has the id 'nobody'"), std::string::npos);
  EXPECT_NE(cut({small_tutorial().layers.back().id}).find("nothing is left for the last stage"), std::string::npos);
  EXPECT_NE(refusal(small_resnet(), {.tp = 2, .split = {{"nobody", "out_channels"}}}).find("no layer has such an id"),
            std::string::npos);
}

}  // namespace
}  // namespace trifold::test
