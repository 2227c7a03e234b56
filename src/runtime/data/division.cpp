#include "runtime/data/division.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "runtime/data/sampler.h"

namespace trifold {

namespace {

constexpr const char* kDivisionNames[] = {"batch", "index", "rank", "kfold", "time", "dirichlet"};

// The shuffles of epochs are of sample 0 of their streams: these are other numbers.
RandomSequence division_sequence(std::uint64_t seed, std::uint32_t stream) {
  return {seed, Purpose::shuffle, stream, 1};
}

template <class T>
void shuffle_all(std::vector<T>& values, RandomSequence& random) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[random.below(static_cast<std::uint32_t>(i))]);
}

std::vector<std::int64_t> all_samples(std::int64_t samples) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

// Runs of `order`, whose lengths differ by one at most.
Shards cut_evenly(const std::vector<std::int64_t>& order, int shards) {
  Shards result(static_cast<std::size_t>(shards));
  const auto samples = static_cast<std::int64_t>(order.size());
  for (int shard = 0; shard < shards; ++shard) {
    auto& own = result[static_cast<std::size_t>(shard)];
    own.assign(order.begin() + samples * shard / shards, order.begin() + samples * (shard + 1) / shards);
    std::ranges::sort(own);
  }
  return result;
}

// Above 0, below 1.
double open_uniform(RandomSequence& random) {
  return (random.bits() + 0.5) * 0x1.0p-32;
}

double standard_normal(RandomSequence& random) {
  const double radius = std::sqrt(-2 * std::log(open_uniform(random)));
  return radius * std::cos(2 * 3.14159265358979323846 * open_uniform(random));
}

// The logarithm of a gamma variate (Marsaglia and Tsang 2000): with a small alpha the variate itself would be 0.
double log_gamma_variate(double alpha, RandomSequence& random) {
  const double boost = alpha < 1 ? std::log(open_uniform(random)) / alpha : 0;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = standard_normal(random);
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(open_uniform(random)) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v) + boost;
  }
}

std::vector<double> draw_shares(int shards, double alpha, RandomSequence& random) {
  std::vector<double> shares(static_cast<std::size_t>(shards));
  for (double& share : shares) share = log_gamma_variate(alpha, random);
  const double top = *std::ranges::max_element(shares);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - top);
  for (double& share : shares) share /= sum;
  return shares;
}

void fill_up(Shards& shards, std::int64_t least, RandomSequence& random) {
  for (auto& poor : shards) {
    while (static_cast<std::int64_t>(poor.size()) < least) {
      auto& rich = *std::ranges::max_element(shards, {}, [](const auto& shard) { return shard.size(); });
      const std::size_t taken = random.below(static_cast<std::uint32_t>(rich.size()));
      poor.push_back(rich[taken]);
      rich[taken] = rich.back();
      rich.pop_back();
    }
  }
}

}  // namespace

const char* name_of(DivisionKind kind) {
  return kDivisionNames[static_cast<std::size_t>(kind)];
}

const std::vector<std::string>& division_names() {
  static const std::vector<std::string> names(std::begin(kDivisionNames), std::end(kDivisionNames));
  return names;
}

DivisionKind parse_division(std::string_view name) {
  const auto found = std::ranges::find(division_names(), name);
  TRIFOLD_CHECK(found != division_names().end(), "no division is called {}", name);
  return static_cast<DivisionKind>(found - division_names().begin());
}

Shards divide_by_index(std::int64_t samples, int shards) {
  return cut_evenly(all_samples(samples), shards);
}

Shards divide_by_rank(std::int64_t samples, int shards) {
  Shards result(static_cast<std::size_t>(shards));
  for (std::int64_t sample = 0; sample < samples; ++sample)
    result[static_cast<std::size_t>(sample % shards)].push_back(sample);
  return result;
}

Shards divide_into_folds(std::int64_t samples, int shards, std::uint64_t seed) {
  std::vector<std::int64_t> order = all_samples(samples);
  RandomSequence random = division_sequence(seed, 0);
  shuffle_all(order, random);
  return cut_evenly(order, shards);
}

Shards divide_by_time(std::span<const double> times, int shards) {
  std::vector<std::int64_t> order = all_samples(static_cast<std::int64_t>(times.size()));
  std::ranges::stable_sort(order, {}, [&](std::int64_t sample) { return times[static_cast<std::size_t>(sample)]; });
  return cut_evenly(order, shards);
}

Shards divide_by_dirichlet(std::span<const int> labels, int shards, double alpha, std::uint64_t seed,
                           std::int64_t least) {
  TRIFOLD_CHECK(static_cast<std::int64_t>(labels.size()) >= shards * least, "{} samples for {} shards of {}",
                labels.size(), shards, least);
  std::vector<std::vector<std::int64_t>> members(
      labels.empty() ? 0 : static_cast<std::size_t>(1 + *std::ranges::max_element(labels)));
  for (std::size_t sample = 0; sample < labels.size(); ++sample)
    members[static_cast<std::size_t>(labels[sample])].push_back(static_cast<std::int64_t>(sample));
  Shards result(static_cast<std::size_t>(shards));
  for (std::size_t label = 0; label < members.size(); ++label) {
    RandomSequence random = division_sequence(seed, static_cast<std::uint32_t>(label + 1));
    auto& order = members[label];
    shuffle_all(order, random);
    const std::vector<double> shares = draw_shares(shards, alpha, random);
    double sum = 0;
    std::size_t begin = 0;
    for (std::size_t shard = 0; shard < result.size(); ++shard) {
      sum += shares[shard];
      const auto rounded = static_cast<std::size_t>(std::llround(sum * static_cast<double>(order.size())));
      const std::size_t end = shard + 1 == result.size() ? order.size() : std::clamp(rounded, begin, order.size());
      for (; begin < end; ++begin) result[shard].push_back(order[begin]);
    }
  }
  RandomSequence random = division_sequence(seed, 0);
  fill_up(result, least, random);
  for (auto& shard : result) std::ranges::sort(shard);
  return result;
}

Shards divide(const Dataset& dataset, const Division& division, int shards, std::uint64_t seed, std::int64_t least) {
  const std::int64_t samples = dataset.size();
  if (samples < shards * least)
    fail_input("{}: {} samples cannot be divided into {} shards of at least {} (a batch each)", dataset.origin(0),
               samples, shards, least);
  switch (division.kind) {
    case DivisionKind::batch:
      break;
    case DivisionKind::index:
      return divide_by_index(samples, shards);
    case DivisionKind::rank:
      return divide_by_rank(samples, shards);
    case DivisionKind::kfold:
      return divide_into_folds(samples, shards, seed);
    case DivisionKind::time: {
      if (!dataset.has_times())
        fail_input("{}: the set has no times to divide it by; name data.time_column", dataset.origin(0));
      std::vector<double> times;
      for (std::int64_t sample = 0; sample < samples; ++sample) times.push_back(dataset.time(sample));
      return divide_by_time(times, shards);
    }
    case DivisionKind::dirichlet: {
      if (dataset.target_width() > 0)
        fail_input("{}: float targets have no classes to divide by; use another data.shard than dirichlet",
                   dataset.origin(0));
      std::vector<int> labels;
      for (std::int64_t sample = 0; sample < samples; ++sample) labels.push_back(dataset.label(sample));
      return divide_by_dirichlet(labels, shards, division.alpha, seed, least);
    }
  }
  TRIFOLD_CHECK(false, "shards of a batch are no parts of the set");
}

std::string describe_shards(const Dataset& dataset, const Shards& shards) {
  std::size_t least = shards.front().size();
  std::size_t most = 0;
  std::size_t together = 0;
  for (const auto& shard : shards) {
    least = std::min(least, shard.size());
    most = std::max(most, shard.size());
    together += shard.size();
  }
  const double mean = static_cast<double>(together) / static_cast<double>(shards.size());
  std::string text = fmt::format("{} shards of {} to {} samples; the largest has {:.2f} times the mean\n",
                                 shards.size(), least, most, static_cast<double>(most) / mean);
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    text += fmt::format("  shard {}: {} samples ({:.1f} %)", shard, shards[shard].size(),
                        100.0 * static_cast<double>(shards[shard].size()) / static_cast<double>(together));
    if (dataset.target_width() == 0) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.classes()));
      for (const std::int64_t sample : shards[shard]) ++counts[static_cast<std::size_t>(dataset.label(sample))];
      text += fmt::format(", by class {}", fmt::join(counts, " "));
    }
    text += "\n";
  }
  return text;
}

}  // namespace trifold
