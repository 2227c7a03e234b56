// The arena: what is alive at the same time never overlaps, and memory is used again.
#include "runtime/compiler/memory_plan.h"

#include <gtest/gtest.h>

#include "core/parallel.h"
#include "runtime/train/model.h"
#include "support/networks.h"

namespace trifold {
namespace {

ModelOptions options() {
  ModelOptions given;
  given.backend = &cpu_backend();
  given.batch = 8;
  given.threads = thread_count();
  return given;
}

class ArenaOf : public ::testing::TestWithParam<NetworkSpec (*)()> {};

TEST_P(ArenaOf, LiveBlocksDoNotOverlap) {
  const Program program = compile_training(GetParam()(), options());
  const std::vector<ArenaBlock>& blocks = program.memory.blocks;
  ASSERT_FALSE(blocks.empty());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i].offset + blocks[i].bytes, program.memory.bytes(Region::arena));
    EXPECT_EQ(blocks[i].offset % 64, 0u);
    for (std::size_t j = 0; j < i; ++j) {
      if (blocks[i].region != blocks[j].region) continue;
      const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      const bool apart = blocks[i].offset + blocks[i].bytes <= blocks[j].offset ||
                         blocks[j].offset + blocks[j].bytes <= blocks[i].offset;
      EXPECT_TRUE(!together || apart) << blocks[i].name << " and " << blocks[j].name;
    }
  }
}

TEST_P(ArenaOf, MemoryIsUsedAgain) {
  const Program program = compile_training(GetParam()(), options());
  std::size_t without_reuse = 0;
  for (const ArenaBlock& block : program.memory.blocks) without_reuse += block.bytes;
  EXPECT_LT(program.memory.bytes(Region::arena), without_reuse);
}

TEST_P(ArenaOf, GradientsLieAsTheirParametersDo) {
  const Program program = compile_training(GetParam()(), options());
  for (const Parameter& parameter : program.graph.parameters) {
    if (parameter.gradient == kNoValue) continue;
    const Place& value = program.memory.places[static_cast<std::size_t>(parameter.value)];
    const Place& gradient = program.memory.places[static_cast<std::size_t>(parameter.gradient)];
    EXPECT_EQ(value.offset, gradient.offset) << parameter.name;
    EXPECT_EQ(value.region, Region::parameters);
    EXPECT_EQ(gradient.region, Region::gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, ArenaOf,
                         ::testing::Values(&test::small_resnet, &test::small_tutorial, &test::small_vgg,
                                           &test::odd_network));

}  // namespace
}  // namespace trifold
