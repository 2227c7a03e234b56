// Every exchange between ranks as the CUDA backend's kernels do it, on simulated GPUs of their own: against values
// worked out here, and to the bit where only the order of a sum could differ.
#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.h"
#include "cuda/gpu_ranks.h"
#include "gpusim/include/gpusim_client.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/collective.h"
#include "support/op_runner.h"

namespace trifold::test {
namespace {

class CudaCollectives : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { gpusim_client::set_order(GetParam()); }
  void TearDown() override { gpusim_client::set_order("lazy"); }
};

TEST_P(CudaCollectives, AllReduceAddsInTheOrderOfRanks) {
  constexpr std::size_t kCount = 1000;
  std::vector<float> sum = drawn(kCount, 0);
  for (int rank = 1; rank < 4; ++rank)
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += drawn(kCount, rank)[i];
  on_gpu_ranks({.data = 4}, [&](const GpuRank& rank) {
    const GpuTensor x(rank.device, {kCount}, drawn(kCount, rank.number()));
    const GpuTensor y(rank.device, {kCount});
    GpuOp(AllReduce{}, rank.device, rank.groups, &x, &y).run();
    EXPECT_EQ(y.read(), sum);
    EXPECT_EQ(x.read(), drawn(kCount, rank.number()));
    GpuOp(AllReduce{}, rank.device, rank.groups, &x, &x).run();
    EXPECT_EQ(x.read(), sum) << "in place";
  });
}

TEST_P(CudaCollectives, AllReduceOverASpanLeavesTheOthersOut) {
  constexpr std::size_t kCount = 200;
  on_gpu_ranks({.data = 4}, [&](const GpuRank& rank) {
    AllReduce op;
    op.span = 2;
    op.ranks = 4;
    const GpuTensor x(rank.device, {kCount}, drawn(kCount, rank.number()));
    const GpuTensor y(rank.device, {kCount});
    GpuOp(op, rank.device, rank.groups, &x, &y).run();
    const int first = rank.number() / 2 * 2;
    std::vector<float> sum = drawn(kCount, first);
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += drawn(kCount, first + 1)[i];
    EXPECT_EQ(y.read(), sum);
  });
}

TEST_P(CudaCollectives, AllGatherStacksTheParts) {
  on_gpu_ranks({.tensor = 3}, [&](const GpuRank& rank) {
    AllGather op;
    op.axis = Axis::tensor;
    const GpuTensor x(rank.device, {2, 5}, drawn(10, rank.number()));
    const GpuTensor y(rank.device, {6, 5});
    GpuOp(op, rank.device, rank.groups, &x, &y).run();
    std::vector<float> all;
    for (int other = 0; other < 3; ++other)
      for (const float value : drawn(10, other)) all.push_back(value);
    EXPECT_EQ(y.read(), all);
  });
}

TEST_P(CudaCollectives, GatherChannelsPutsEachSampleTogether) {
  on_gpu_ranks({.tensor = 2}, [&](const GpuRank& rank) {
    constexpr std::size_t kPiece = 3 * 2 * 2;  // a rank's channels of a sample
    const GpuTensor x(rank.device, {4, 3, 2, 2}, drawn(4 * kPiece, rank.number()));
    const GpuTensor y(rank.device, {4, 6, 2, 2});
    GpuOp(GatherChannels{}, rank.device, rank.groups, &x, &y).run();
    std::vector<float> all;
    for (std::size_t sample = 0; sample < 4; ++sample)
      for (int other = 0; other < 2; ++other)
        for (std::size_t i = 0; i < kPiece; ++i) all.push_back(drawn(4 * kPiece, other)[sample * kPiece + i]);
    EXPECT_EQ(y.read(), all);
  });
}

// Axes of one mesh have links of their own.
TEST_P(CudaCollectives, AnAxisLeavesTheOtherAxisOut) {
  on_gpu_ranks({.data = 2, .tensor = 2}, [&](const GpuRank& rank) {
    for (const Axis axis : {Axis::tensor, Axis::data}) {
      AllReduce op;
      op.axis = axis;
      const GpuTensor x(rank.device, {1}, {static_cast<float>(1 << rank.number())});
      GpuOp(op, rank.device, rank.groups, &x, &x).run();
      const float expected =
          axis == Axis::tensor ? (rank.number() < 2 ? 3.0f : 12.0f) : (rank.number() % 2 == 0 ? 5.0f : 10.0f);
      EXPECT_EQ(x.read().front(), expected) << name_of(axis);
    }
  });
}

// Two stages that send to each other before either receives, several messages each. What is sent from its place is
// written anew only when it has left.
const std::map<int, std::vector<Route>> kThereAndBack = {
    {0, {{.number = 1, .stage = 1, .sends = true}, {.number = 2, .stage = 1, .sends = false}}},
    {1, {{.number = 1, .stage = 0, .sends = false}, {.number = 2, .stage = 0, .sends = true}}}};

Send sending(int route, int to, int copies) {
  Send op;
  op.stage = to;
  op.route = route;
  op.copies = copies;
  return op;
}
Receive receiving(int route, int from) {
  Receive op;
  op.stage = from;
  op.route = route;
  return op;
}

TEST_P(CudaCollectives, StagesSendToEachOtherAndThenReceive) {
  constexpr std::size_t kCount = 300;
  for (const int copies : {0, 3}) {
    SCOPED_TRACE(copies);
    on_gpu_ranks(
        {.pipeline = 2},
        [&](const GpuRank& rank) {
          const int other = 1 - rank.number();
          const GpuTensor in[3] = {GpuTensor(rank.device, {kCount}, drawn(kCount, 10 * rank.number())),
                                   GpuTensor(rank.device, {kCount}, drawn(kCount, 10 * rank.number() + 1)),
                                   GpuTensor(rank.device, {kCount}, drawn(kCount, 10 * rank.number() + 2))};
          GpuOp send(sending(1 + rank.number(), other, copies), rank.device, rank.groups, &in[0], nullptr);
          for (const GpuTensor& each : in) {
            send.bind(&each, nullptr);
            send.run();
          }
          const GpuTensor y(rank.device, {kCount});
          GpuOp receive(receiving(1 + other, other), rank.device, rank.groups, nullptr, &y);
          for (int message = 0; message < 3; ++message) {
            receive.run();
            EXPECT_EQ(y.read(), drawn(kCount, 10 * other + message)) << message;
          }
          // The next round takes the same memory.
          send.bind(&in[0], nullptr);
          if (copies == 0) send.kernel().settle();
          rank.device.clear(in[0].data(), in[0].desc().bytes());
          send.run();
          receive.run();
          EXPECT_EQ(y.read(), std::vector<float>(kCount, 0.0f));
        },
        kThereAndBack);
  }
}

// Parts that are chunks of one stage.
TEST_P(CudaCollectives, AStageSendsToItself) {
  const std::map<int, std::vector<Route>> routes = {
      {0, {{.number = 5, .stage = 0, .sends = true}, {.number = 5, .stage = 0, .sends = false}}}};
  on_gpu_ranks(
      {.pipeline = 2},
      [&](const GpuRank& rank) {
        if (rank.number() == 1) return;
        const GpuTensor x(rank.device, {8}, drawn(8, 1));
        const GpuTensor y(rank.device, {8});
        GpuOp receive(receiving(5, 0), rank.device, rank.groups, nullptr, &y);
        EXPECT_THROW(receive.run(), Error) << "nothing was sent";
        GpuOp(sending(5, 0, 0), rank.device, rank.groups, &x, nullptr).run();
        receive.run();
        EXPECT_EQ(y.read(), drawn(8, 1));
      },
      routes);
}

// A rank that fails, while others already wait for it on their GPUs.
TEST_P(CudaCollectives, ARankThatFailsEndsTheOthersWaits) {
  try {
    on_gpu_ranks({.data = 2}, [&](const GpuRank& rank) {
      if (rank.number() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other waits by then
        fail_runtime("this rank has had enough");
      }
      const GpuTensor x(rank.device, {4}, drawn(4, 0));
      GpuOp sum(AllReduce{}, rank.device, rank.groups, &x, &x);
      for (;;) {
        sum.run();
        rank.device.synchronize();
      }
    });
    ADD_FAILURE() << "nothing failed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "this rank has had enough");
  }
}

TEST_P(CudaCollectives, ARankThatNeverConnectsEndsTheOthersWaits) {
  GpuPlugin& plugin = *find_gpus().plugin;
  const std::vector<std::unique_ptr<RankGroups>> ranks = make_local_ranks({.data = 2});
  for (const auto& rank : ranks) rank->set_on_device(plugin.make_groups(*rank, plugin.device(rank->rank()), {}));
  RankTeam team({.ranks = 2, .on_failure = [&](const std::string& why) {
                   for (const auto& rank : ranks) rank->abort(why);
                 }});
  try {
    team.run([&](int rank) {
      if (rank == 1) {
        Communicator& host = ranks[1]->along(Axis::data);
        std::array<std::byte, 128> id{};  // rank 0 has sent it, and now waits in NCCL
        host.wait(host.broadcast(id, 0));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        fail_runtime("this rank does not connect");
      }
      ranks[0]->on_device()->connect();
    });
    ADD_FAILURE() << "nothing failed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "this rank does not connect");
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaCollectives, ::testing::Values("lazy", "eager"),
                         [](const auto& each) { return std::string(each.param); });

// --- batch_norm.join

HostTensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  const TensorDesc desc{shape};
  HostTensor tensor{desc, false, std::vector<std::byte>(desc.bytes())};
  std::memcpy(tensor.data.data(), values.data(), desc.bytes());
  return tensor;
}

TEST(CudaBatchNormJoin, GivesWhatTheHostGives) {
  constexpr std::int64_t kChannels = 200;  // more than a block
  constexpr std::int64_t kRows = 4;
  std::vector<float> istd = drawn(kRows * kChannels, 1);
  for (float& value : istd) value = 2 + value;
  const std::vector<HostTensor> in = {tensor_of({kRows, kChannels}, drawn(kRows * kChannels, 0)),
                                      tensor_of({kRows, kChannels}, istd), tensor_of({kChannels}, drawn(kChannels, 2)),
                                      tensor_of({kChannels}, std::vector<float>(kChannels, 0.5f))};
  GpuPlugin& plugin = *find_gpus().plugin;
  for (const int span : {1, 2, 4}) {
    for (const int replica : {0, 3}) {
      SCOPED_TRACE(::testing::Message() << "span " << span << " replica " << replica);
      BatchNormJoin op;
      op.group = 2;
      op.pixels = 9;
      op.span = span;
      op.replica = replica;
      std::vector<OpOutput> out = {{.desc = {Shape{kChannels}}, .updates = 2},
                                   {.desc = {Shape{kChannels}}, .updates = 3}};
      if (span > 1)
        for (int i = 0; i < 2; ++i) out.push_back({.desc = {Shape{1, kChannels}}});
      const auto expected = run_op({.backend = reference_backend()}, op, in, out);
      const auto actual = run_op({.backend = plugin.backend(false), .device = &plugin.device(1)}, op, in, out);
      for (std::size_t i = 0; i < expected.size(); ++i)
        for (std::size_t c = 0; c < kChannels; ++c)
          EXPECT_NEAR(actual[i].as()[c], expected[i].as()[c], 1e-6 * (1 + std::abs(expected[i].as()[c])))
              << "output " << i << " channel " << c;
    }
  }
}

TEST(CudaBatchNormJoinRows, GivesWhatTheHostGives) {
  constexpr std::int64_t kChannels = 200;  // more than a block
  constexpr std::int64_t kGroups = 3;
  BatchNormJoinRows op;
  op.group = 2;
  op.pixels = {12, 12, 8};
  const auto rows = static_cast<std::int64_t>(op.pixels.size()) * kGroups;
  std::vector<float> istd = drawn(static_cast<std::size_t>(rows * kChannels), 1);
  for (float& value : istd) value = 2 + value;
  GpuPlugin& plugin = *find_gpus().plugin;
  for (const bool running : {false, true}) {
    SCOPED_TRACE(running ? "with running averages" : "without");
    op.running = running;
    std::vector<HostTensor> in = {tensor_of({rows, kChannels}, drawn(static_cast<std::size_t>(rows * kChannels), 0)),
                                  tensor_of({rows, kChannels}, istd)};
    std::vector<OpOutput> out = {{.desc = {Shape{kGroups, kChannels}}}, {.desc = {Shape{kGroups, kChannels}}}};
    if (running) {
      in.push_back(tensor_of({kChannels}, drawn(kChannels, 2)));
      in.push_back(tensor_of({kChannels}, std::vector<float>(kChannels, 0.5f)));
      for (const int updated : {2, 3}) out.push_back({.desc = {Shape{kChannels}}, .updates = updated});
    }
    const auto expected = run_op({.backend = reference_backend()}, op, in, out);
    const auto actual = run_op({.backend = plugin.backend(false), .device = &plugin.device(1)}, op, in, out);
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (std::size_t at = 0; at < expected[i].as().size(); ++at)
        EXPECT_NEAR(actual[i].as()[at], expected[i].as()[at], 1e-6 * (1 + std::abs(expected[i].as()[at])))
            << "output " << i << " at " << at;
  }
}

}  // namespace
}  // namespace trifold::test
