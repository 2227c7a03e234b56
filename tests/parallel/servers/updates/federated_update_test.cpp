// Federated servers against the formulas of Reddi et al. 2021 in double precision.
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "parallel/servers/updates/slice_update.h"

namespace trifold {
namespace {

constexpr std::size_t kNumbers = 517;
constexpr int kRounds = 6;

std::vector<float> change_of_round(int round) {
  std::mt19937 random(static_cast<unsigned>(round));
  std::normal_distribution<float> draw(0.0f, 0.02f);
  std::vector<float> values(kNumbers);
  for (float& value : values) value = draw(random);
  return values;
}

struct ServerState {
  std::vector<float> values = {};
  std::vector<std::vector<float>> states = {};

  bool operator==(const ServerState&) const = default;
};

// `in_place`: the values are written where they were.
ServerState serve(const FederatedArgs& args, const std::vector<std::size_t>& cuts, bool in_place = true) {
  const auto update = make_federated_update(args);
  ServerState server{.values = std::vector<float>(kNumbers, 0.5f)};
  for (const float initial : update->initial_states()) server.states.emplace_back(kNumbers, initial);
  EXPECT_EQ(server.states.size(), update->state_names().size());
  for (int round = 1; round <= kRounds; ++round) {
    const std::vector<float> push = change_of_round(round);
    std::vector<float> written(kNumbers);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::size_t begin = cuts[i], count = cuts[i + 1] - begin;
      std::vector<float*> states;
      for (auto& state : server.states) states.push_back(state.data() + begin);
      const std::span<float> values(server.values.data() + begin, count);
      update->apply(values, {push.data() + begin, count},
                    in_place ? values : std::span<float>(written.data() + begin, count), states,
                    {.rate = 0.123, .updates = round});
    }
    if (!in_place) server.values = written;
  }
  return server;
}

struct Numbers {
  double value = 0.5, m = 0, v = 0;
};

Numbers in_double(const FederatedArgs& args, std::size_t element) {
  Numbers n;
  n.v = args.tau * args.tau;
  for (int round = 1; round <= kRounds; ++round) {
    const double change = change_of_round(round)[element];
    if (args.server == "fedavg") {
      n.m = args.momentum * n.m + change;
      n.value += args.rate * n.m;
      continue;
    }
    const double square = change * change;
    n.m = args.beta1 * n.m + (1 - args.beta1) * change;
    if (args.server == "fedadagrad") n.v += square;
    if (args.server == "fedadam") n.v = args.beta2 * n.v + (1 - args.beta2) * square;
    if (args.server == "fedyogi") n.v -= (1 - args.beta2) * square * (n.v > square ? 1 : n.v < square ? -1 : 0);
    n.value += args.rate * n.m / (std::sqrt(n.v) + args.tau);
  }
  return n;
}

class FederatedServer : public ::testing::TestWithParam<FederatedArgs> {};

TEST_P(FederatedServer, FollowsThePaper) {
  const ServerState server = serve(GetParam(), {0, kNumbers});
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const Numbers expected = in_double(GetParam(), i);
    EXPECT_NEAR(server.values[i], expected.value, 2e-6) << i;
    if (server.states.empty()) continue;
    EXPECT_NEAR(server.states[0][i], expected.m, 1e-6 * std::fabs(expected.m) + 1e-8) << i;
    if (server.states.size() < 2) continue;
    EXPECT_NEAR(server.states[1][i], expected.v, 2e-6 * expected.v) << i;
  }
}

TEST_P(FederatedServer, SlicesAreTheWholeToTheBit) {
  const ServerState whole = serve(GetParam(), {0, kNumbers});
  EXPECT_EQ(serve(GetParam(), {0, 1, 7, 100, 333, kNumbers}), whole);
  EXPECT_EQ(serve(GetParam(), {0, 250, kNumbers}, false), whole);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FederatedServer,
                         ::testing::Values(FederatedArgs{}, FederatedArgs{.rate = 0.7, .momentum = 0.9},
                                           FederatedArgs{.server = "fedadagrad", .rate = 0.05},
                                           FederatedArgs{.server = "fedadagrad", .rate = 0.03, .beta1 = 0, .tau = 0.01},
                                           FederatedArgs{.server = "fedadam", .rate = 0.02},
                                           FederatedArgs{.server = "fedyogi", .rate = 0.02},
                                           FederatedArgs{
                                               .server = "fedyogi", .rate = 0.02, .beta1 = 0.5, .beta2 = 0.6}),
                         [](const auto& made) { return fmt::format("{}_{}", made.param.server, made.index); });

TEST(FederatedServers, FedAvgOfRateOneTakesTheClientsMean) {
  const auto update = make_federated_update({});
  EXPECT_TRUE(update->state_names().empty());
  std::vector<float> values = {1, -2};
  update->apply(values, std::vector<float>{0.5f, 4}, values, {}, {});
  EXPECT_EQ(values, (std::vector<float>{1.5f, 2}));
}

TEST(FederatedServers, AdaptiveOnesStartAtTauSquared) {
  for (const char* server : {"fedadagrad", "fedadam", "fedyogi"}) {
    const auto update = make_federated_update({.server = server, .tau = 0.5});
    EXPECT_EQ(update->state_names(), (std::vector<std::string>{"moment1", "moment2"}));
    EXPECT_EQ(update->initial_states(), (std::vector<float>{0, 0.25f}));
  }
}

// After a thousand rounds without a change, a moment is its decay^1000 but for roundings, which go to either side. The
// rounding error of a float decay would go to one side, and show.
TEST(FederatedServers, MomentsDecayAtTheirExactRate) {
  constexpr int kQuietRounds = 1000;
  struct Case {
    FederatedArgs args;
    std::vector<double> decays;  // of the states
  };
  for (const auto& [args, decays] : {Case{{.momentum = 0.999}, {0.999}},
                                     Case{{.server = "fedadam", .beta1 = 0.999, .beta2 = 0.99999}, {0.999, 0.99999}}}) {
    const auto update = make_federated_update(args);
    std::vector<float> initial(kNumbers), values(kNumbers);
    for (std::size_t i = 0; i < kNumbers; ++i) initial[i] = 0.5f + static_cast<float>(i) / (2 * kNumbers);
    std::vector<std::vector<float>> states(decays.size(), initial);
    std::vector<float*> pointers;
    for (auto& state : states) pointers.push_back(state.data());
    for (int round = 1; round <= kQuietRounds; ++round)
      update->apply(values, std::vector<float>(kNumbers), values, pointers, {.updates = round});
    for (std::size_t state = 0; state < states.size(); ++state) {
      double left = 0, exact = 0;
      for (std::size_t i = 0; i < kNumbers; ++i) {
        left += states[state][i];
        exact += initial[i] * std::pow(decays[state], kQuietRounds);
      }
      EXPECT_NEAR(left / exact, 1, 1e-6) << args.server << " state " << state;
    }
  }
}

TEST(FederatedServers, OthersAreRefused) {
  EXPECT_EQ(federated_names(), (std::vector<std::string>{"fedavg", "fedadagrad", "fedadam", "fedyogi"}));
  try {
    make_federated_update({.server = "fedsgd"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown federated server 'fedsgd': known are fedavg, fedadagrad, fedadam, fedyogi");
  }
  EXPECT_THROW(make_federated_update({.rate = 0}), Error);
  EXPECT_THROW(make_federated_update({.momentum = 1}), Error);
  EXPECT_THROW(make_federated_update({.beta1 = -0.1}), Error);
  EXPECT_THROW(make_federated_update({.beta2 = 1}), Error);
  EXPECT_THROW(make_federated_update({.tau = 0}), Error);
}

}  // namespace
}  // namespace trifold
