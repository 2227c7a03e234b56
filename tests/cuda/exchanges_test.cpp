// What tensor ranks exchange of images in rows, on simulated GPUs: as the host's kernels do it among the same ranks.
#include <gtest/gtest.h>

#include "cuda/gpu_ranks.h"
#include "gpusim/include/gpusim_client.h"
#include "kernels/ops/halo.h"
#include "layers/row_window.h"
#include "runtime/core/half.h"

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

class CudaExchanges : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { gpusim_client::set_order(GetParam()); }
  void TearDown() override { gpusim_client::set_order("lazy"); }
};

INSTANTIATE_TEST_SUITE_P(Orders, CudaExchanges, testing::Values("lazy", "eager"),
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
        SCOPED_TRACE(testing::Message() << c.height << " to " << c.out_height << " rows of " << name_of(form.dtype)
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

}  // namespace
}  // namespace trifold::test
