#include "insight/live/live_sampler.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;

constexpr auto kSharesOf = 1s;
constexpr auto kSpeedOf = 5s;  // steps of a second are not rare
constexpr std::size_t kMostMessages = 40;

double seconds_between(LiveSampler::Clock::time_point begin, LiveSampler::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

std::string_view name_of(LiveBoard::Doing doing) {
  switch (doing) {
    case LiveBoard::Doing::preparing:
      return "preparing: reading data, choosing kernels, taking memory";
    case LiveBoard::Doing::training:
      return "training";
    case LiveBoard::Doing::evaluating:
      return "evaluating on the test set";
    case LiveBoard::Doing::ending:
      return "ending: writing what is left";
  }
  return "";
}

// Escape sequences (ESC [ ... letter) and other control characters are no text.
std::string without_controls(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte == 0x1b && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
    } else if (byte >= 0x20 && byte != 0x7f) {
      text += line[i];
    }
  }
  return text;
}

}  // namespace

LiveMessage message_of(std::string_view line) {
  LiveMessage message{.text = without_controls(line)};
  for (const auto& [level, tone] : {std::pair{"[warning] ", Tone::warning}, std::pair{"[error] ", Tone::error},
                                    std::pair{"[critical] ", Tone::error}, std::pair{"[info] ", Tone::plain}}) {
    const std::size_t at = message.text.find(level);
    if (!message.text.starts_with('[') || at == std::string::npos) continue;
    message.text.erase(0, at + std::string_view(level).size());
    message.tone = tone;
    break;
  }
  if (message.text.starts_with("trifold: ")) message.tone = Tone::error;
  return message;
}

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void LiveSampler::heard(std::string_view text) {
  for (const char byte : text) {
    if (byte != '\n') {
      unfinished_ += byte;
      continue;
    }
    LiveMessage message = message_of(unfinished_);
    unfinished_.clear();
    if (message.text.empty()) continue;
    if (messages_.size() == kMostMessages) messages_.erase(messages_.begin());
    messages_.push_back(std::move(message));
  }
}

// From the end of an earlier step to that of the last one; while nothing comes after it, the time since then counts
// too.
double LiveSampler::images_per_s(const LiveBoard::Reading& reading) {
  if (steps_.empty() || steps_.back().images != reading.figures.images)
    steps_.push_back({reading.stepped_at, reading.figures.images});
  while (steps_.size() > 2 && steps_.back().at - steps_[1].at >= kSpeedOf) steps_.pop_front();
  const double between = seconds_between(steps_.front().at, steps_.back().at);
  const double since = seconds_between(steps_.back().at, reading.read_at);
  const double seconds = since > 2 * between ? between + since : between;
  return seconds > 0 ? static_cast<double>(steps_.back().images - steps_.front().images) / seconds : 0;
}

LiveRank LiveSampler::rank_of(const LiveBoard::Reading& reading, const LiveRun& run, std::size_t index) const {
  const LiveRankInfo& info = run.ranks_here[index];
  const RankActivity::Sample& now = reading.ranks[index];
  LiveRank rank{.rank = info.rank, .place = info.place, .activity = now.activity, .seconds = now.seconds};
  rank.plan_bytes = info.plan_bytes;
  const auto program = static_cast<std::size_t>(now.program);
  if (now.node >= 0 && program < info.nodes.size() && now.node < std::ssize(info.nodes[program]))
    rank.work = info.names[static_cast<std::size_t>(info.nodes[program][static_cast<std::size_t>(now.node)])];
  if (run.micro_batches > 1 && now.activity != Activity::idle) rank.micro_batch = now.micro_batch;

  const Spent before =
      moments_.empty() || moments_.front().of_ranks.size() <= index ? Spent{} : moments_.front().of_ranks[index];
  Spent spent{};
  double all = 0;
  for (std::size_t i = 0; i < kActivities; ++i) all += spent[i] = std::max(0.0, now.spent_s[i] - before[i]);
  if (all <= 0) return rank;
  const auto share = [&](Activity activity) { return spent[static_cast<std::size_t>(activity)] / all; };
  rank.compute =
      share(Activity::forward) + share(Activity::backward) + share(Activity::update) + share(Activity::device);
  rank.communication = share(Activity::communication);
  rank.input = share(Activity::input);
  rank.idle = share(Activity::idle);
  return rank;
}

LiveState LiveSampler::sample(const LiveBoard::Reading& reading, const LiveRun* run) {
  const LiveFigures& figures = reading.figures;
  LiveState state;
  state.doing = name_of(reading.doing);
  state.elapsed_s = seconds_between(begin_, reading.read_at);
  state.process_bytes = resident_bytes();
  state.messages = messages_;
  state.checkpoint_step = reading.checkpoint_step;
  state.writing_checkpoint = reading.writing_checkpoint;
  state.test_loss = reading.test_loss;
  state.test_accuracy = reading.test_accuracy;
  state.best_test_accuracy = reading.best_test_accuracy;
  if (reading.has_figures) {
    state.epoch = figures.epoch;
    state.epochs = figures.epochs;
    state.step = figures.step;
    state.steps = figures.steps;
    state.losses = reading.losses;
    state.loss = figures.loss;
    state.least_loss = reading.least_loss;
    state.train_accuracy = figures.train_accuracy;
    state.learning_rate = figures.learning_rate;
    state.loss_scale = figures.loss_scale;
    state.skipped_updates = figures.skipped_updates;
    state.input_wait_fraction = figures.input_wait_fraction;
    if (figures.train_s > 0) state.mean_images_per_s = static_cast<double>(figures.images) / figures.train_s;
    if (state.mean_images_per_s > 0) state.left_s = static_cast<double>(figures.images_left) / state.mean_images_per_s;
    state.images_per_s = images_per_s(reading);
  }
  if (reading.cluster) state.cluster = cluster_.sample(*reading.cluster, reading.read_at);
  if (run != nullptr) {
    state.job = run->job;
    state.plan = run->plan;
    state.processes = run->processes;
    state.ranks_elsewhere = run->ranks - static_cast<int>(run->ranks_here.size());
    for (std::size_t i = 0; i < std::min(run->ranks_here.size(), reading.ranks.size()); ++i)
      state.ranks.push_back(rank_of(reading, *run, i));
  }

  Moment moment{.at = reading.read_at};
  for (const RankActivity::Sample& rank : reading.ranks) moment.of_ranks.push_back(rank.spent_s);
  moments_.push_back(std::move(moment));
  // The first is the youngest that is a second old.
  while (moments_.size() > 1 && reading.read_at - moments_[1].at >= kSharesOf) moments_.pop_front();
  return state;
}

}  // namespace trifold
