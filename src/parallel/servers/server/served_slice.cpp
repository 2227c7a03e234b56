#include "parallel/servers/server/served_slice.h"

#include <algorithm>
#include <utility>

#include "parallel/servers/slices/gradient_codec.h"

namespace trifold {
namespace {

// A shard has at most four clocks unanswered, so no honest push is further ahead than this.
constexpr std::int64_t kFarthest = 16;
constexpr std::size_t kKeptCuts = 2;
constexpr std::int64_t kRememberedRounds = 16;

}  // namespace

std::int64_t ConsistencyRules::last_cut(std::int64_t clock) const {
  std::int64_t last = 0;
  for (const std::int64_t every : cut_every) last = std::max(last, clock / every * every);
  return last;
}

int ConsistencyRules::needed() const {
  return std::max(1, participation.count() - backup);
}

ServedSlice::ServedSlice(Args args, SliceState state) : args_(std::move(args)), state_(std::move(state)) {
  TRIFOLD_CHECK(static_cast<int>(state_.applied.size()) == args_.rules->shards(), "{} clocks of {} shards",
                state_.applied.size(), args_.rules->shards());
  keep_cut();
}

ServedSlice::Taken ServedSlice::push(SlicePush push) {
  check_combined(push);
  const int shard = push.shard;  // of several: rounds are complete for all shards at once
  const std::int64_t clock = push.clock;
  if (contains(shard, clock)) {
    const auto round = state_.left_out.find(clock);
    const bool late = round != state_.left_out.end() && std::ranges::binary_search(round->second, shard);
    return late ? Taken::late : Taken::repeated;
  }
  if (clock > next_of(shard) + kFarthest) return Taken::too_far;
  if (!args_.tensor.turns.at(clock)) fail_runtime("{} is not synchronised in clock {}", args_.tensor.name, clock);
  // What is wrong with it is found now, before anything has changed.
  std::vector<float> numbers_of_it;
  numbers(push, numbers_of_it);
  const std::size_t here = waiting_of(push);
  if (here == push.all_shards().size()) return Taken::waits;
  if (here > 0) return Taken::overlaps;
  waiting_[clock].insert_or_assign(shard, std::move(push));
  while (advance()) {
  }
  return contains(shard, clock) ? Taken::applied : Taken::waits;
}

void ServedSlice::check_combined(const SlicePush& push) const {
  if (push.shards.empty()) return;
  const ConsistencyRules& rules = *args_.rules;
  if (rules.mode != ConsistencyRules::Mode::sync || rules.backup > 0 || !args_.rule->combines_in_parts() || moves_on())
    fail_runtime("pushes of several shards in one are for rounds of all shards that are averaged");
  const std::vector<bool> expected = rules.participation.in_round(push.clock);
  for (const int shard : push.shards)
    if (!expected[static_cast<std::size_t>(shard)])
      fail_runtime("shard {} does not take part in round {}", shard, push.clock);
}

// How many of its shards' pushes are here, by themselves or in others.
std::size_t ServedSlice::waiting_of(const SlicePush& push) const {
  const auto of_clock = waiting_.find(push.clock);
  if (of_clock == waiting_.end()) return 0;
  const auto is_here = [&](int shard) {
    return of_clock->second.contains(shard) || std::ranges::any_of(of_clock->second, [&](const auto& entry) {
             return std::ranges::binary_search(entry.second.shards, shard);
           });
  };
  return static_cast<std::size_t>(std::ranges::count_if(push.all_shards(), is_here));
}

std::int64_t ServedSlice::next_of(int shard) const {
  return args_.tensor.turns.next(state_.applied[static_cast<std::size_t>(shard)]);
}

std::int64_t ServedSlice::round() const {
  return args_.tensor.turns.next(state_.least());
}

std::int64_t ServedSlice::staleness_for(std::int64_t clock) const {
  return round() >= clock ? 0 : clock - state_.least();
}

bool ServedSlice::ready_for(std::int64_t clock) const {
  switch (args_.rules->mode) {
    case ConsistencyRules::Mode::sync:
      return staleness_for(clock) == 0;
    case ConsistencyRules::Mode::ssp:
      return staleness_for(clock) <= args_.rules->staleness;
    case ConsistencyRules::Mode::async:
      return true;
  }
  return true;
}

const std::vector<float>& ServedSlice::values_for(std::int64_t clock) const {
  const bool repeats =
      args_.rules->mode == ConsistencyRules::Mode::sync && args_.tensor.turns.next(clock) == state_.least() - 1;
  return repeats && state_.before ? *state_.before : *state_.values;
}

// A push of `clock` is beyond the cuts from the shard's last push on: all shards must have come to the last of them,
// and it must find room.
bool ServedSlice::may_pass(int shard, std::int64_t clock) const {
  if (args_.rules->stop_clock && clock >= *args_.rules->stop_clock) return false;
  const std::int64_t cut = args_.rules->last_cut(clock);
  if (cut == 0 || cut < state_.applied[static_cast<std::size_t>(shard)]) return true;
  return round() >= cut && state_.cuts.size() <= kKeptCuts;
}

const SliceState* ServedSlice::state_at(std::int64_t cut) const {
  const auto kept = state_.cuts.lower_bound(cut);
  return kept != state_.cuts.end() && kept->second->least() <= cut ? kept->second.get() : nullptr;
}

bool ServedSlice::release(std::int64_t clock) {
  state_.cuts.erase(state_.cuts.begin(), state_.cuts.upper_bound(clock));
  const std::int64_t version = state_.version;
  while (advance()) {
  }
  return state_.version != version;
}

bool ServedSlice::advance() {
  if (waiting_.empty()) return false;
  if (args_.rules->mode == ConsistencyRules::Mode::sync) return complete_round();
  for (int shard = 0; shard < args_.rules->shards(); ++shard)
    if (apply_next_of(shard)) return true;
  return false;
}

bool ServedSlice::complete_round() {
  const std::int64_t round = this->round();
  const auto pushed = waiting_.find(round);
  if (pushed == waiting_.end() || !may_pass(0, round)) return false;
  const std::vector<bool> expected = args_.rules->participation.in_round(round);
  std::vector<Contribution> contributions;
  std::vector<bool> left_out = expected;
  int here = 0;
  rooms_.resize(expected.size());
  const bool chooses = args_.rule->needs_distances();
  in_version_.clear();
  for (const auto& [shard, push] : pushed->second) {
    const auto at = static_cast<std::size_t>(shard);
    if (!expected[at]) continue;
    const auto shards = static_cast<int>(push.all_shards().size());
    for (const int each : push.all_shards()) {
      left_out[static_cast<std::size_t>(each)] = false;
      if (args_.audit != nullptr) in_version_.push_back({each, round});
    }
    here += shards;
    if (chooses) continue;
    contributions.push_back({.values = numbers(push, rooms_[at]).data(), .weight = push.weight, .shards = shards});
  }
  if (here < args_.rules->needed()) return false;
  combined_.resize(state_.values->size());
  double rate = pushed->second.begin()->second.rate;
  if (chooses) {
    const SlicePush* chosen = combine_chosen(pushed->second);
    if (chosen == nullptr) return false;
    rate = chosen->rate;  // others may lie
  } else if (moves_on()) {
    move_on(contributions);
  } else {
    args_.rule->combine(contributions, combined_);
  }
  apply(combined_, rate);
  std::ranges::fill(state_.applied, round + 1);
  state_.left_out.erase(state_.left_out.begin(), state_.left_out.lower_bound(round - kRememberedRounds));
  for (std::size_t shard = 0; shard < left_out.size(); ++shard)
    if (left_out[shard]) state_.left_out[round].push_back(static_cast<int>(shard));
  waiting_.erase(pushed);
  changed();
  return true;
}

// Null: nobody has chosen yet, or whom they chose has not pushed here.
const SlicePush* ServedSlice::combine_chosen(const Clock& pushes) {
  const auto chosen = pushes.find(choice_.shard);
  if (choice_.clock != round() || chosen == pushes.end()) return nullptr;
  const std::span<const float> values = numbers(chosen->second, combined_);
  if (values.data() != combined_.data()) std::ranges::copy(values, combined_.begin());
  state_.choice = choice_;
  return &chosen->second;
}

std::vector<int> ServedSlice::candidates() const {
  std::vector<int> shards;
  const std::int64_t round = this->round();
  const auto pushed = waiting_.find(round);
  if (pushed == waiting_.end() || !may_pass(0, round)) return shards;
  const std::vector<bool> expected = args_.rules->participation.in_round(round);
  for (const auto& [shard, push] : pushed->second)
    if (expected[static_cast<std::size_t>(shard)]) shards.push_back(shard);
  return shards;
}

void ServedSlice::add_distances(std::span<const int> shards, std::span<double> distances) const {
  if (!args_.tensor.trained) return;
  const Clock& pushes = waiting_.at(round());
  std::vector<std::vector<float>> rooms(shards.size());
  std::vector<Contribution> contributions;
  for (std::size_t i = 0; i < shards.size(); ++i)
    contributions.push_back({.values = numbers(pushes.at(shards[i]), rooms[i]).data()});
  add_squared_distances(contributions, static_cast<std::size_t>(elements()), distances);
}

bool ServedSlice::choose(const RoundChoice& choice) {
  if (choice.clock <= choice_.clock) return false;
  choice_ = choice;
  const std::int64_t version = state_.version;
  while (advance()) {
  }
  return state_.version != version;
}

// As if one had seen the shards' groups one after the other: each shard's is what it kept of the old values, and what
// it found itself.
void ServedSlice::move_on(std::span<const Contribution> statistics) {
  const double keeps = args_.tensor.keeps;
  const std::vector<float>& old = *state_.values;
  for (std::size_t i = 0; i < combined_.size(); ++i) {
    double value = old[i];
    for (const Contribution& of_shard : statistics) value = keeps * value + (of_shard.values[i] - keeps * old[i]);
    combined_[i] = static_cast<float>(value);
  }
}

bool ServedSlice::apply_next_of(int shard) {
  const std::int64_t clock = next_of(shard);
  const auto of_clock = waiting_.find(clock);
  if (of_clock == waiting_.end() || !may_pass(shard, clock)) return false;
  const auto push = of_clock->second.find(shard);
  if (push == of_clock->second.end()) return false;
  // Its share of what a synchronous update would be; of a statistic, that much of the way towards it, or where the
  // shard has moved on what it got, that.
  const std::span<const float> values = numbers(push->second, combined_);
  if (values.data() != combined_.data()) combined_.assign(values.begin(), values.end());
  const float share = 1.0f / static_cast<float>(args_.rules->shards());
  if (args_.tensor.trained) {
    for (float& value : combined_) value *= share;
  } else if (args_.tensor.keeps == 0) {
    const std::vector<float>& now = *state_.values;
    for (std::size_t i = 0; i < combined_.size(); ++i) combined_[i] = now[i] + share * (combined_[i] - now[i]);
  }
  apply(combined_, push->second.rate);
  if (args_.audit != nullptr) in_version_ = {{shard, clock}};
  state_.applied[static_cast<std::size_t>(shard)] = clock + 1;
  of_clock->second.erase(push);
  if (of_clock->second.empty()) waiting_.erase(of_clock);
  changed();
  return true;
}

// The values that others still read stay as they are.
void ServedSlice::apply(std::span<const float> push, double rate) {
  state_.updates += 1;
  // The next values are written where the ones before the last update were, unless somebody has them.
  auto next = std::const_pointer_cast<std::vector<float>>(std::exchange(state_.before, nullptr));
  if (!next || next.use_count() > 1) next = std::make_shared<std::vector<float>>(push.size());
  if (args_.tensor.trained) {
    std::vector<float*> states;
    for (SharedFloats& state : state_.states) {
      if (state.use_count() > 1) state = std::make_shared<std::vector<float>>(*state);
      states.push_back(std::const_pointer_cast<std::vector<float>>(state)->data());  // nobody else has it
    }
    args_.update->apply(*state_.values, push, *next, states,
                        {.rate = rate, .updates = state_.updates, .decays = args_.tensor.decays});
  } else {
    std::ranges::copy(push, next->begin());
  }
  state_.before = std::exchange(state_.values, std::move(next));
}

std::span<const float> ServedSlice::numbers(const SlicePush& push, std::vector<float>& room) const {
  const auto elements = static_cast<std::size_t>(this->elements());
  if (const float* plain = plain_floats(push.encoding.bytes(), elements)) return {plain, elements};
  room.resize(elements);
  decode(push.encoding.bytes(), room);
  return room;
}

void ServedSlice::changed() {
  state_.version += 1;
  if (args_.audit != nullptr) args_.audit->changed(args_.number, state_, in_version_);
  keep_cut();
}

// All shards have done exactly so many clocks: a slice that comes from elsewhere may be past it. Until the tensor's
// next turn it is the same at every cut; the last one stands for all.
void ServedSlice::keep_cut() {
  const std::int64_t cut = args_.rules->last_cut(round());
  if (cut == 0 || cut < *std::ranges::max_element(state_.applied)) return;
  auto state = std::make_shared<SliceState>(state_);
  state->before = nullptr;
  state->left_out.clear();
  state->cuts.clear();
  state_.cuts.insert_or_assign(cut, std::move(state));
}

}  // namespace trifold
