// What tensor ranks exchange of images in rows and of matrices in blocks, and what replicas exchange of gradients, on
// simulated GPUs: each as the host's kernels do it among the same ranks.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/half.h"
#include "cuda/gpu_ranks.h"
#include "gpusim/include/gpusim_client.h"
#include "kernels/ops/gradient_exchange.h"
#include "kernels/ops/grid.h"
#include "kernels/ops/halo.h"
#include "parallel/tensor/row_moves.h"

namespace trifold::test {
namespace {

std::vector<std::byte> as_bytes_of(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = dtype == DType::f16 ? f16_from_float(values[i]) : bf16_from_float(values[i]);
    if (dtype == DType::f32)
      std::memcpy(bytes.data() + i * sizeof(float), &values[i], sizeof(float));
    else
      std::memcpy(bytes.data() + i * sizeof(half), &half, sizeof(half));
  }
  return bytes;
}

// The op's kernel of the host, among the same ranks.
std::vector<std::byte> on_host(const Op& op, const RankGroups& ranks, const TensorDesc& in, const TensorDesc& out,
                               std::vector<std::byte> values) {
  const KernelPtr kernel =
      cpu_backend().make({.op = op, .in = std::span(&in, 1), .out = std::span(&out, 1), .ranks = &ranks});
  std::vector<std::byte> result(out.bytes());
  std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
  std::byte* const in_memory[] = {values.data()};
  std::byte* const out_memory[] = {result.data()};
  kernel->bind(in_memory, out_memory, scratch.data());
  kernel->run({});
  return result;
}

// To the bit: what moves is only copied, and sums have one order.
void expect_as_on_host(const Op& op, const GpuRank& rank, const TensorDesc& in, const TensorDesc& out) {
  const std::vector<std::byte> values =
      as_bytes_of(drawn(static_cast<std::size_t>(in.elements()), rank.number()), in.dtype);
  GpuTensor x(rank.device, in);
  const GpuTensor y(rank.device, out);
  x.write_bytes(values);
  GpuOp(op, rank.device, rank.groups, &x, &y).run();
  EXPECT_EQ(y.read_bytes(), on_host(op, rank.groups, in, out, values)) << op.name() << " on rank " << rank.number();
}

class CudaExchanges : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { gpusim_client::set_order(GetParam()); }
  void TearDown() override { gpusim_client::set_order("lazy"); }
};

INSTANTIATE_TEST_SUITE_P(Orders, CudaExchanges, ::testing::Values("lazy", "eager"),
                         [](const auto& each) { return std::string(each.param); });

// --- rows

struct RowCase {
  std::int64_t height;
  std::int64_t out_height;
  int ranks;
  RowWindow window;

  RowMoves moves(int rank) const { return moves_for(window, height, out_height, rank, ranks); }
};

// Each needs another kind of exchange: a row of each neighbour, more rows below than above, rows of the rank after the
// next, rows that nobody wants, and an image that its ranks hardly share.
const std::vector<RowCase> kRowCases = {
    {10, 10, 2, {.kernel = 3, .pad = 1}},
    {10, 5, 3, {.kernel = 3, .stride = 2, .pad = 1}},
    {9, 9, 4, {.kernel = 5, .pad = 4, .dilation = 2}},
    {11, 5, 4, {.kernel = 1, .stride = 2}},
    {7, 3, 3, {.kernel = 2, .stride = 2, .edge = RowEdge::lowest}},
    {4, 6, 4, {.kernel = 3, .pad = 2, .edge = RowEdge::lowest}},
};

// Rows of so many bytes that 16, 8, 4 and 2 of them move at once.
struct RowForm {
  DType dtype;
  bool channels_last;
  std::int64_t width;

  TensorDesc image(std::int64_t rows) const {
    constexpr std::int64_t kImages = 2, kChannels = 8;
    return {{kImages, kChannels, rows, width},
            dtype,
            channels_last ? Layout{Order::channel_block, static_cast<int>(kChannels)} : Layout{}};
  }
};
constexpr RowForm kRowForms[] = {{DType::f32, false, 4}, {DType::f32, false, 6},  {DType::f32, false, 3},
                                 {DType::f16, true, 3},  {DType::bf16, false, 5}, {DType::bf16, false, 8}};

TEST_P(CudaExchanges, RanksFetchRowsAndGiveTheirGradientsBack) {
  for (const RowCase& c : kRowCases)
    on_gpu_ranks({.tensor = c.ranks}, [&](const GpuRank& rank) {
      HaloExchange exchange;
      exchange.moves = c.moves(rank.number());
      exchange.edge = c.window.edge;
      HaloAdd add;
      add.moves = exchange.moves;
      for (const RowForm& form : kRowForms) {
        SCOPED_TRACE(::testing::Message() << c.height << " to " << c.out_height << " rows of " << name_of(form.dtype)
                                          << " and width " << form.width);
        const TensorDesc mine = form.image(exchange.moves.mine().count());
        const TensorDesc wanted = form.image(exchange.moves.wanted().count());
        expect_as_on_host(exchange, rank, mine, wanted);
        expect_as_on_host(add, rank, wanted, mine);
      }
    });
}

TEST_P(CudaExchanges, RanksGatherAndTakeRows) {
  on_gpu_ranks({.tensor = 3}, [&](const GpuRank& rank) {
    GatherRows gather;
    gather.moves = moves_for_whole(7, rank.number(), 3);
    TakeRows take;
    take.edge = RowEdge::lowest;
    for (const RowForm& form : kRowForms) {
      expect_as_on_host(gather, rank, form.image(gather.moves.mine().count()), form.image(7));
      for (const std::int64_t first : {-2, 0, 3}) {
        take.first_row = first;
        expect_as_on_host(take, rank, form.image(7), form.image(6));
      }
    }
  });
}

// --- blocks

// Rows of 16 and of 4 bytes at once.
TEST_P(CudaExchanges, LinesOfAGridGatherAndAddUp) {
  on_gpu_ranks({.tensor = 4}, [&](const GpuRank& rank) {
    const TensorGrid grid{2, rank.number()};
    for (const std::int64_t columns : {8, 3})
      for (const GridLine line : {GridLine::row, GridLine::column}) {
        SCOPED_TRACE(::testing::Message() << columns << " columns, by " << name_of(line));
        const TensorDesc block{{5, columns}};
        const TensorDesc wide{{5, 2 * columns}};
        GridGather gather;
        GridSumScatter scatter;
        GridSum sum;
        for (GridExchange* op : {static_cast<GridExchange*>(&gather), static_cast<GridExchange*>(&scatter),
                                 static_cast<GridExchange*>(&sum)}) {
          op->grid = grid;
          op->line = line;
        }
        expect_as_on_host(gather, rank, block, wide);
        expect_as_on_host(scatter, rank, wide, block);
        expect_as_on_host(sum, rank, wide, wide);
      }
  });
}

TEST_P(CudaExchanges, BlocksAreGatheredAndTaken) {
  on_gpu_ranks({.tensor = 4}, [&](const GpuRank& rank) {
    GatherBlocks gather;
    gather.grid = {2, rank.number()};
    TakeBlock take;
    take.grid = gather.grid;
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t columns : {8, 3}) {
        expect_as_on_host(gather, rank, {{5, columns}, dtype}, {{10, 2 * columns}, dtype});
        expect_as_on_host(take, rank, {{10, 2 * columns}, dtype}, {{5, columns}, dtype});
      }
  });
}

// --- gradients

constexpr int kReplicas = 3;
constexpr std::int64_t kGradients = 601;  // no multiple of anything

template <class T>
T among_replicas() {
  T op;
  op.ranks = kReplicas;
  return op;
}

// Several steps, since what one leaves unsaid the next one adds: of the host's kernel and of the GPU's, on every rank.
// `draw`: this rank's gradients of a step.
void expect_steps_as_on_host(
    const Op& op, double tolerance,
    const std::function<std::vector<float>(int)>& draw = [](int which) { return drawn(kGradients, which); }) {
  constexpr int kSteps = 3;
  on_gpu_ranks({.data = kReplicas}, [&](const GpuRank& rank) {
    const TensorDesc desc{{kGradients}};
    const KernelPtr host =
        cpu_backend().make({.op = op, .in = std::span(&desc, 1), .out = std::span(&desc, 1), .ranks = &rank.groups});
    std::vector<std::byte> memory(host->scratch_bytes() + host->lasting_bytes() + 64);
    std::vector<float> expected(kGradients);
    std::byte* const host_data[] = {reinterpret_cast<std::byte*>(expected.data())};
    host->bind(host_data, host_data, memory.data());

    GpuTensor gradients(rank.device, Shape{kGradients});
    GpuOp gpu(op, rank.device, rank.groups, &gradients, &gradients);
    for (int step = 0; step < kSteps; ++step) {
      std::ranges::copy(draw(kReplicas * step + rank.number()), expected.begin());
      gradients.write(expected);
      gpu.run();
      host->run({});
      const std::vector<float> sum = gradients.read();
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_NEAR(sum[i], expected[i], tolerance) << op.name() << " step " << step << " element " << i;
    }
  });
}

TEST_P(CudaExchanges, GradientsIn16BitsAreRoundedAsOnTheHost) {
  for (const DType wire : {DType::f16, DType::bf16}) {
    auto op = among_replicas<HalfAllReduce>();
    op.wire = wire;
    expect_steps_as_on_host(op, 0);
  }
}

// Also where many have the same magnitude: the first of them count.
TEST_P(CudaExchanges, TheLargestGradientsAreThoseOfTheHost) {
  const auto draw_alike = [](int which) {
    std::vector<float> values = drawn(kGradients, which);
    for (float& value : values) value = std::round(40 * value) / 8;
    return values;
  };
  for (const std::int64_t keep : {std::int64_t{1}, std::int64_t{60}, kGradients}) {
    auto op = among_replicas<TopKAllReduce>();
    op.keep = keep;
    expect_steps_as_on_host(op, 0);
    expect_steps_as_on_host(op, 0, draw_alike);
  }
}

// Two matrices with something before, between and after them, and more columns than are made at once; one that has a
// column of nothing new; none at all.
TEST_P(CudaExchanges, ProductsOfThinMatricesAreThoseOfTheHost) {
  auto op = among_replicas<LowRankAllReduce>();
  op.matrices = {{10, 12, 20}, {300, 10, 25}};
  gpusim_client::statistics(true);
  for (const std::int64_t columns : {2, 5}) {
    op.rank = columns;
    expect_steps_as_on_host(op, 1e-4);  // sums are made in another order
  }
  op.matrices = {{0, 300, 2}};
  op.rank = 3;
  expect_steps_as_on_host(op, 1e-4);
  op.matrices = {};
  expect_steps_as_on_host(op, 0);
  gpusim_client::statistics(false);
  for (const GpusimLaunch& launch : gpusim_client::launches())
    EXPECT_EQ(launch.shared_conflicts, 0u) << "banks of shared memory in " << launch.kernel;
}

TEST_P(CudaExchanges, ModelsAreAveragedAsOnTheHost) {
  expect_steps_as_on_host(among_replicas<AverageReplicas>(), 0);
}

}  // namespace
}  // namespace trifold::test
