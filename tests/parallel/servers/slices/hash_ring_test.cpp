// Loads are even, servers that come and go move little, and every member comes to the same placement.
#include "parallel/servers/slices/hash_ring.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "parallel/servers/slices/slice.h"

namespace trifold {
namespace {

std::vector<RingItem> items_of(const std::vector<ServedTensor>& tensors) {
  std::vector<RingItem> items;
  for (const Slice& slice : cut_into_slices(tensors)) items.push_back({name_of(slice, tensors), 4 * slice.elements()});
  return items;
}

std::vector<RingItem> resnet20() {
  std::vector<ServedTensor> tensors = {{"conv1.weight", 432}};
  int from = 16;
  for (const int to : {16, 16, 16, 32, 32, 32, 64, 64, 64}) {
    const std::string block = fmt::format("block{}", tensors.size());
    tensors.push_back({block + ".conv1.weight", 9 * from * to});
    tensors.push_back({block + ".conv2.weight", 9 * to * to});
    for (const char* name : {".bn1.weight", ".bn1.bias", ".bn2.weight", ".bn2.bias"})
      tensors.push_back({block + name, to});
    from = to;
  }
  tensors.push_back({"fc.weight", 640});
  tensors.push_back({"fc.bias", 10});
  return items_of(tensors);
}

std::vector<RingItem> vgg16() {
  std::vector<ServedTensor> tensors;
  int from = 3;
  for (const int to : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    tensors.push_back({fmt::format("conv{}.weight", tensors.size()), 9 * from * to});
    tensors.push_back({fmt::format("conv{}.bias", tensors.size()), to});
    from = to;
  }
  for (const auto& [name, in, out] : {std::tuple{"fc1", 25088, 4096}, {"fc2", 4096, 4096}, {"fc3", 4096, 1000}}) {
    tensors.push_back({fmt::format("{}.weight", name), std::int64_t{in} * out});
    tensors.push_back({fmt::format("{}.bias", name), out});
  }
  return items_of(tensors);
}

std::vector<std::string> servers(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("server-{}", i));
  return names;
}

std::int64_t total(const std::vector<RingItem>& items) {
  std::int64_t bytes = 0;
  for (const RingItem& item : items) bytes += item.bytes;
  return bytes;
}

struct RingCase {
  const char* model;
  std::vector<RingItem> (*items)();
  int servers;
};

class HashRing : public ::testing::TestWithParam<RingCase> {};

TEST_P(HashRing, LoadsAreEven) {
  const std::vector<RingItem> items = GetParam().items();
  const int count = GetParam().servers;
  std::vector<std::int64_t> loads(static_cast<std::size_t>(count)), copies(loads);
  for (std::size_t i = 0; const SlicePlace& place : place_on_ring(items, servers(count))) {
    loads[static_cast<std::size_t>(place.primary)] += items[i].bytes;
    if (count > 1) {
      EXPECT_NE(place.replica, place.primary);
      copies.at(static_cast<std::size_t>(place.replica)) += items[i].bytes;
    } else {
      EXPECT_EQ(place.replica, -1);
    }
    ++i;
  }
  const double mean = static_cast<double>(total(items)) / count;
  const auto most = static_cast<double>(*std::max_element(loads.begin(), loads.end()));
  std::int64_t largest = 0;
  for (const RingItem& item : items) largest = std::max(largest, item.bytes);
  RecordProperty("max_over_mean", fmt::format("{:.4f}", most / mean));
  EXPECT_LE(most, mean * 1.03 + static_cast<double>(largest));
  EXPECT_LE(most, mean * 1.05);
  EXPECT_LE(static_cast<double>(*std::max_element(copies.begin(), copies.end())), mean * 1.5) << "replicas";
}

TEST_P(HashRing, AServerThatGoesOrComesMovesAboutItsShareAndItsReplicasTakeOver) {
  const std::vector<RingItem> items = GetParam().items();
  const int count = GetParam().servers;
  if (count == 1) return;
  const std::vector<std::string> all = servers(count);
  const std::vector<SlicePlace> whole = place_on_ring(items, all);
  double most = 0;
  for (int gone = 0; gone < count; ++gone) {
    std::vector<std::string> rest = all;
    rest.erase(rest.begin() + gone);
    const std::vector<SlicePlace> without = place_on_ring(items, rest);
    std::int64_t moved = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string& now = rest[static_cast<std::size_t>(without[i].primary)];
      if (now != all[static_cast<std::size_t>(whole[i].primary)]) moved += items[i].bytes;
      if (whole[i].primary == gone) {
        EXPECT_EQ(now, all[static_cast<std::size_t>(whole[i].replica)]) << items[i].name;
      }
    }
    most = std::max(most, static_cast<double>(moved) / static_cast<double>(total(items)) * count);
  }
  RecordProperty("moved_times_servers", fmt::format("{:.3f}", most));
  EXPECT_LE(most, 1.5);
}

INSTANTIATE_TEST_SUITE_P(Models, HashRing,
                         ::testing::Values(RingCase{"Resnet20", resnet20, 1}, RingCase{"Resnet20", resnet20, 2},
                                           RingCase{"Resnet20", resnet20, 3}, RingCase{"Resnet20", resnet20, 4},
                                           RingCase{"Resnet20", resnet20, 8}, RingCase{"Vgg16", vgg16, 2},
                                           RingCase{"Vgg16", vgg16, 3}, RingCase{"Vgg16", vgg16, 4},
                                           RingCase{"Vgg16", vgg16, 8}),
                         [](const auto& made) { return fmt::format("{}On{}", made.param.model, made.param.servers); });

TEST(HashRingOrder, OfServersAndItemsDoesNotMatter) {
  std::vector<RingItem> items = resnet20();
  const std::vector<std::string> forward = servers(5);
  const std::vector<SlicePlace> expected = place_on_ring(items, forward);
  const std::vector<std::string> backward(forward.rbegin(), forward.rend());
  std::reverse(items.begin(), items.end());
  const std::vector<SlicePlace> places = place_on_ring(items, backward);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const SlicePlace& place = expected[items.size() - 1 - i];
    EXPECT_EQ(places[i], (SlicePlace{4 - place.primary, 4 - place.replica})) << items[i].name;
  }
}

// Members of several versions may meet: what a name means must not change unnoticed.
TEST(HashRingOrder, PlacesAreTheSameOnEveryMachine) {
  std::vector<RingItem> items;
  for (int i = 0; i < 12; ++i) items.push_back({fmt::format("layer{}.weight[0:1000]", i), 4000});
  std::string text;
  for (const SlicePlace& place : place_on_ring(items, {"alpha", "beta", "gamma"}))
    text += fmt::format("{}{} ", place.primary, place.replica);
  EXPECT_EQ(text, "01 12 21 02 02 21 21 12 10 10 02 20 ");
}

TEST(HashRingOrder, ItemsTooLargeForAnyShareGoToTheLeastLoaded) {
  std::vector<RingItem> items = {{"a", 100}, {"b", 100}, {"c", 100}, {"tiny", 1}};
  std::vector<int> load(3);
  for (std::size_t i = 0; const SlicePlace& place : place_on_ring(items, servers(3)))
    load[static_cast<std::size_t>(place.primary)] += static_cast<int>(items[i++].bytes);
  std::sort(load.begin(), load.end());
  EXPECT_EQ(load, (std::vector<int>{100, 100, 101}));
}

TEST(HashRingOrder, NonsenseIsRefused) {
  EXPECT_THROW(place_on_ring({{"a", 1}}, {}), Error);
  EXPECT_THROW(place_on_ring({{"a", 1}}, {"twice", "once", "twice"}), Error);
  EXPECT_TRUE(place_on_ring({}, {"one", "two"}).empty());
}

}  // namespace
}  // namespace trifold
