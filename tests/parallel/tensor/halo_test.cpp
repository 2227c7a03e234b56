// Rows that tensor ranks exchange: every rank gets the rows of the whole image that it wants, and halo_add is the
// gradient of that.
#include "kernels/ops/halo.h"

#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "kernels/backend.h"
#include "parallel/rank_groups.h"
#include "parallel/tensor/row_moves.h"

namespace trifold::test {
namespace {

struct RowCase {
  std::int64_t height;
  std::int64_t out_height;
  int ranks;
  RowWindow window;
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

constexpr std::int64_t kImages = 2, kImageChannels = 16, kImageWidth = 3;

std::vector<float> drawn_values(std::int64_t count, std::uint64_t which) {
  RandomSequence random(5, Purpose::synthetic, 0, which);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(random.uniform(-1, 1));
  return values;
}

Shape row_image(std::int64_t rows) {
  return {kImages, kImageChannels, rows, kImageWidth};
}

// The rows of a plain image that has rows `has`; outside of it `edge`.
std::vector<float> rows_of(const std::vector<float>& from, const RowRun& has, const RowRun& wants, float edge) {
  std::vector<float> rows;
  for (std::int64_t plane = 0; plane < kImages * kImageChannels; ++plane)
    for (std::int64_t row = wants.begin; row < wants.end; ++row)
      for (std::int64_t column = 0; column < kImageWidth; ++column)
        rows.push_back(
            row < has.begin || row >= has.end
                ? edge
                : from[static_cast<std::size_t>(((plane * has.count()) + row - has.begin) * kImageWidth + column)]);
  return rows;
}

// Runs the op on every rank, each on its own thread.
class RowRanks {
 public:
  explicit RowRanks(int ranks) : groups_(make_local_ranks({.tensor = ranks})) {}

  template <class T>
  std::vector<std::vector<float>> run(const std::function<T(int)>& op_of, const std::vector<std::vector<float>>& in,
                                      const std::function<Shape(int)>& in_shape,
                                      const std::function<Shape(int)>& out_shape, const Layout& layout) {
    std::vector<std::vector<float>> out(in.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(in.size()); ++rank)
      threads.emplace_back([&, rank] {
        const auto at = static_cast<std::size_t>(rank);
        const T op = op_of(rank);
        const std::vector<TensorDesc> from = {{in_shape(rank), DType::f32, layout}};
        const std::vector<TensorDesc> to = {{out_shape(rank), DType::f32, layout}};
        const KernelPtr kernel = cpu_backend().make({.op = op, .in = from, .out = to, .ranks = groups_[at].get()});
        std::vector<float> laid_out(in[at].size()), result(static_cast<std::size_t>(to[0].elements()), 99.0f);
        to_layout(in[at], from[0].shape, layout, laid_out);
        std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
        std::byte* const in_memory[] = {reinterpret_cast<std::byte*>(laid_out.data())};
        std::byte* const out_memory[] = {reinterpret_cast<std::byte*>(result.data())};
        kernel->bind(in_memory, out_memory, scratch.data());
        kernel->run({});
        out[at].resize(result.size());
        to_plain(result, to[0].shape, layout, out[at]);
      });
    for (std::thread& thread : threads) thread.join();
    return out;
  }

 private:
  std::vector<std::unique_ptr<RankGroups>> groups_;
};

class HaloExchangeTest : public testing::TestWithParam<std::tuple<std::size_t, int>> {
 protected:
  const RowCase& row_case() const { return kRowCases[std::get<0>(GetParam())]; }
  Layout layout() const {
    const int block = std::get<1>(GetParam());
    return block == 0 ? Layout{} : Layout{Order::channel_block, block};
  }
  RowMoves moves(int rank) const {
    return moves_for(row_case().window, row_case().height, row_case().out_height, rank, row_case().ranks);
  }
};

TEST_P(HaloExchangeTest, GivesEveryRankItsRowsAndTakesTheirGradientsBack) {
  const RowCase& c = row_case();
  const RowRun all{0, c.height};
  const std::vector<float> whole = drawn_values(row_image(c.height).elements(), 1);
  const float edge = c.window.edge == RowEdge::zero ? 0.0f : -std::numeric_limits<float>::infinity();
  std::vector<std::vector<float>> own, gradients;
  for (int rank = 0; rank < c.ranks; ++rank) {
    own.push_back(rows_of(whole, all, moves(rank).mine(), edge));
    gradients.push_back(
        drawn_values(row_image(moves(rank).wanted().count()).elements(), static_cast<std::uint64_t>(2 + rank)));
  }
  const auto own_shape = [&](int rank) { return row_image(moves(rank).mine().count()); };
  const auto wanted_shape = [&](int rank) { return row_image(moves(rank).wanted().count()); };

  RowRanks ranks(c.ranks);
  const auto fetched = ranks.run<HaloExchange>(
      [&](int rank) {
        HaloExchange op;
        op.moves = moves(rank);
        op.edge = c.window.edge;
        return op;
      },
      own, own_shape, wanted_shape, layout());
  for (int rank = 0; rank < c.ranks; ++rank)
    EXPECT_EQ(fetched[static_cast<std::size_t>(rank)], rows_of(whole, all, moves(rank).wanted(), edge)) << rank;

  const auto added = ranks.run<HaloAdd>(
      [&](int rank) {
        HaloAdd op;
        op.moves = moves(rank);
        return op;
      },
      gradients, wanted_shape, own_shape, layout());
  std::vector<float> expected(whole.size(), 0.0f);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const auto part = rows_of(gradients[static_cast<std::size_t>(rank)], moves(rank).wanted(), all, 0.0f);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += part[i];
  }
  for (int rank = 0; rank < c.ranks; ++rank)
    EXPECT_EQ(added[static_cast<std::size_t>(rank)], rows_of(expected, all, moves(rank).mine(), 0.0f)) << rank;
}

INSTANTIATE_TEST_SUITE_P(Rows, HaloExchangeTest,
                         testing::Combine(testing::Range(std::size_t{0}, kRowCases.size()), testing::Values(0, 8)));

TEST(RowParts, CoverTheImageInOrder) {
  for (const std::int64_t height : {4, 7, 224})
    for (const int parts : {1, 2, 3, 4}) {
      std::int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const RowRun rows = rows_of_part(height, part, parts);
        EXPECT_EQ(rows.begin, next);
        EXPECT_GE(rows.count(), height / parts);
        EXPECT_LE(rows.count(), height / parts + 1);
        next = rows.end;
      }
      EXPECT_EQ(next, height);
    }
}

}  // namespace
}  // namespace trifold::test
