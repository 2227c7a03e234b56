#include "insight/live/live_format.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "insight/metrics/progress_format.h"

namespace trifold {
namespace {

// A line that can be left out where rows are short, the least important first.
struct Candidate {
  LiveLine line;
  int importance = 0;
  bool is_row = false;  // of the table of ranks or shards
};

// Names of users' making may hold anything. What a terminal would act on is not shown, and without UTF-8 neither is
// what is not ASCII.
void make_printable(std::string& text, Glyphs glyphs) {
  for (char& byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x20 || value == 0x7F || (glyphs == Glyphs::ascii && value >= 0x80)) byte = '?';
  }
}

void fit(LiveLine& line, const LiveSize& size) {
  int room = size.columns;
  for (LiveRunOfText& run : line) {
    make_printable(run.text, size.glyphs);
    run.text = clipped(run.text, room);
    room -= columns_of(run.text);
  }
}

// `line` at the left, `text` at the right where there is room for both.
LiveLine with_right(LiveLine line, const LiveRunOfText& run, int columns) {
  const int gap = columns - columns_of(line) - columns_of(run.text);
  if (gap < 2 || run.text.empty()) return line;
  line.push_back({std::string(static_cast<std::size_t>(gap), ' '), Tone::plain});
  line.push_back(run);
  return line;
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string rate_of(double images_per_s) {
  if (images_per_s <= 0) return "-";
  return fmt::format("{:.{}f}", images_per_s, images_per_s < 100 ? 1 : 0);
}

LiveLine title_of(const LiveState& state, const LiveSize& size) {
  LiveLine line = {{"trifold  ", Tone::faint}, {state.job, Tone::strong}, {"  " + state.plan, Tone::plain}};
  return with_right(std::move(line), {format_duration(state.elapsed_s), Tone::plain}, size.columns);
}

LiveLine status_of(const LiveState& state, const LiveSize& size) {
  LiveLine line;
  if (state.stopping)
    line = {{"stopping; a checkpoint is kept", Tone::warning}};
  else
    line = {{state.doing, Tone::plain}};
  std::string checkpoint;
  if (state.checkpoint_step >= 0)
    checkpoint = fmt::format("{} checkpoint of step {}", state.writing_checkpoint ? "writing the" : "has a",
                             state.checkpoint_step);
  return with_right(std::move(line), {checkpoint, Tone::plain}, size.columns);
}

LiveLine progress_of(const LiveState& state, const LiveSize& size) {
  const auto digits = fmt::formatted_size("{}", state.steps);
  const std::string at =
      fmt::format("epoch {}/{}  {:>{}}/{} ", state.epoch, state.epochs, state.step, digits, state.steps);
  const std::string eta = state.left_s ? "  ETA " + format_duration(*state.left_s) : "";
  const int bar = std::min(60, size.columns - columns_of(at) - columns_of(eta));
  const double done = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
  LiveLine line = {{at, Tone::plain}};
  if (bar >= 8) line.push_back({filled_bar(done, bar, size.glyphs), Tone::plain});
  line.push_back({eta, Tone::strong});
  return line;
}

LiveLine speed_of(const LiveState& state) {
  LiveLine line = {{"images/s  ", Tone::faint},
                   {fmt::format("{:>8} now  {:>8} mean", rate_of(state.images_per_s), rate_of(state.mean_images_per_s)),
                    Tone::plain}};
  if (state.input_wait_fraction > kInputBoundFraction)
    line.push_back({"   waits for data " + percent(state.input_wait_fraction), Tone::warning});
  return line;
}

LiveLine loss_line(const LiveState& state, const LiveSize& size) {
  LiveLine line = {{"loss      ", Tone::faint}};
  if (!state.loss) {
    line.push_back({"       -", Tone::plain});
    return line;
  }
  const bool is_least = state.least_loss && *state.loss <= *state.least_loss;
  line.push_back({fmt::format("{:>8} now", format_loss(*state.loss)), is_least ? Tone::good : Tone::plain});
  if (state.least_loss) line.push_back({fmt::format("  {:>8} min  ", format_loss(*state.least_loss)), Tone::plain});
  line.push_back({sparkline(state.losses, std::min(60, size.columns - columns_of(line)), size.glyphs), Tone::plain});
  return line;
}

LiveLine accuracy_of(const LiveState& state) {
  LiveLine line = {{"accuracy  ", Tone::faint}};
  const auto text = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.2f} %", 100 * *value) : std::string("-");
  };
  line.push_back({fmt::format("{:>8} train", text(state.train_accuracy)), Tone::plain});
  if (state.test_accuracy) {
    const bool is_best = state.best_test_accuracy && *state.test_accuracy >= *state.best_test_accuracy;
    line.push_back({fmt::format("{:>8} test", text(state.test_accuracy)), is_best ? Tone::good : Tone::plain});
    if (state.best_test_accuracy && !is_best)
      line.push_back({fmt::format("  {:>8} best", text(state.best_test_accuracy)), Tone::plain});
  } else if (state.test_loss) {
    line = {{"test loss ", Tone::faint}, {fmt::format("{:>8}", format_loss(*state.test_loss)), Tone::plain}};
  }
  return line;
}

LiveLine rates_of(const LiveState& state) {
  LiveLine line = {{"rate      ", Tone::faint},
                   {fmt::format("{:>8.4g}", state.learning_rate.value_or(0)), Tone::plain}};
  if (state.loss_scale) line.push_back({fmt::format("   loss scale {:.0f}", *state.loss_scale), Tone::plain});
  if (state.loss_scale && state.skipped_updates > 0)
    line.push_back({fmt::format(", {:.0f} updates skipped", state.skipped_updates), Tone::warning});
  return line;
}

LiveLine memory_of(const LiveState& state) {
  const std::size_t planned =
      std::accumulate(state.ranks.begin(), state.ranks.end(), std::size_t{0},
                      [](std::size_t sum, const LiveRank& rank) { return sum + rank.plan_bytes; });
  return {{"memory    ", Tone::faint},
          {fmt::format("{} of this process, {} planned", format_live_bytes(state.process_bytes),
                       format_live_bytes(planned)),
           Tone::plain}};
}

LiveLine ranks_elsewhere(const LiveState& state) {
  const int others = state.processes - 1;
  return {{fmt::format("      and {} more rank{} in {} other process{}", state.ranks_elsewhere,
                       state.ranks_elsewhere == 1 ? "" : "s", others, others == 1 ? "" : "es"),
           Tone::faint}};
}

const char* name_of(Activity activity) {
  switch (activity) {
    case Activity::idle:
      return "idle";
    case Activity::input:
      return "input";
    case Activity::forward:
      return "forward";
    case Activity::backward:
      return "backward";
    case Activity::update:
      return "update";
    case Activity::communication:
      return "exchange";
    case Activity::device:
      return "on device";
  }
  return "?";
}

// The columns of the table of ranks, at a width: the layer takes what the others leave.
struct RankColumns {
  RankColumns(const LiveState& state, int columns) : has_input(columns >= 92), has_shares(columns >= 56) {
    for (const LiveRank& rank : state.ranks) {
      place = std::max(place, columns_of(rank.place));
      if (rank.micro_batch >= 0) micro_batch = 5;
    }
    if (place > 0) place += 2;
    has_place = place > 0 && columns >= 70;
    const int taken = kRank + (has_place ? place : 0) + kActivity + micro_batch + kSeconds +
                      (has_shares ? 3 * kShare : 0) + (has_input ? kShare : 0) + kBytes;
    work = std::clamp(columns - taken, 0, 40);
  }

  static constexpr int kRank = 6, kActivity = 10, kSeconds = 8, kShare = 6, kBytes = 10;
  int place = 0, micro_batch = 0, work = 0;
  bool has_place = false, has_input, has_shares;
};

LiveLine rank_header(const RankColumns& columns) {
  std::string text = left("rank", RankColumns::kRank);
  if (columns.has_place) text += left("place", columns.place);
  text += left("does", RankColumns::kActivity);
  if (columns.micro_batch > 0) text += left("mb", columns.micro_batch);
  text += left("layer", columns.work) + right("for", RankColumns::kSeconds);
  if (columns.has_shares) text += right("comp.", RankColumns::kShare) + right("comm.", RankColumns::kShare);
  if (columns.has_input) text += right("input", RankColumns::kShare);
  if (columns.has_shares) text += right("idle", RankColumns::kShare);
  return {{text + right("planned", RankColumns::kBytes), Tone::faint}};
}

LiveLine rank_line(const LiveRank& rank, const RankColumns& columns) {
  std::string text = left(fmt::format("{:>4}", rank.rank), RankColumns::kRank);
  if (columns.has_place) text += left(rank.place, columns.place);
  text += left(name_of(rank.activity), RankColumns::kActivity);
  if (columns.micro_batch > 0)
    text += left(rank.micro_batch < 0 ? "" : std::to_string(rank.micro_batch), columns.micro_batch);
  text += left_by_end(rank.work, columns.work) + right(format_short_duration(rank.seconds), RankColumns::kSeconds);
  const auto share = [&](double value) { text += right(percent(value), RankColumns::kShare); };
  if (columns.has_shares) share(rank.compute), share(rank.communication);
  if (columns.has_input) share(rank.input);
  if (columns.has_shares) share(rank.idle);
  return {{text + right(format_live_bytes(rank.plan_bytes), RankColumns::kBytes), Tone::plain}};
}

constexpr int kHead = 66, kRow = 65, kRowBeyond = 30;  // of the table: importance
constexpr std::size_t kFirstRows = 4;                  // before messages

void add_cluster(std::vector<Candidate>& lines, const LiveClusterState& cluster, const LiveSize& size) {
  const bool whole = cluster.state == LiveCluster::State::whole;
  lines.push_back({cluster_line(cluster), whole ? 55 : 87});
  if (!cluster.servers.empty()) lines.push_back({servers_line(cluster), 20});
  lines.push_back({{}, 11});
  const ShardColumns columns(size.columns);
  lines.push_back({shard_header(columns), kHead});
  std::size_t first = 0;
  for (const LiveShardState& shard : cluster.shards) {
    // Where not all can be shown, those are that others wait for.
    const bool matters = shard.slow || shard.missed || shard.worker.empty() || ++first <= kFirstRows;
    lines.push_back({shard_line(shard, columns), matters ? kRow : kRowBeyond, true});
  }
}

// In the order in which they are shown.
std::vector<Candidate> candidates_of(const LiveState& state, const LiveSize& size) {
  std::vector<Candidate> lines;
  const auto add = [&](LiveLine line, int importance) { lines.push_back({std::move(line), importance}); };
  add(title_of(state, size), 90);
  add(status_of(state, size), state.stopping ? 99 : 70);
  add({}, 12);
  if (state.steps > 0) {
    add(progress_of(state, size), 100);
    add({}, 10);
    add(speed_of(state), 85);
    add(loss_line(state, size), 95);
    if (state.train_accuracy || state.test_accuracy || state.test_loss) add(accuracy_of(state), 60);
    if (state.learning_rate) add(rates_of(state), 40);
  }
  if (!state.ranks.empty()) {
    add(memory_of(state), 50);
    add({}, 11);
    const RankColumns columns(state, size.columns);
    add(rank_header(columns), kHead);
    for (std::size_t i = 0; i < state.ranks.size(); ++i)
      lines.push_back({rank_line(state.ranks[i], columns), i < kFirstRows ? kRow : kRowBeyond, true});
    if (state.ranks_elsewhere > 0) add(ranks_elsewhere(state), 64);
  }
  if (state.cluster) add_cluster(lines, *state.cluster, size);
  if (!state.messages.empty()) add({}, 9);
  // The last two are worth more than ranks that did not fit, older ones fill what is left.
  for (std::size_t i = 0; i < state.messages.size(); ++i)
    add({{state.messages[i].text, state.messages[i].tone}}, i + 2 >= state.messages.size() ? 35 : 5);
  return lines;
}

// The `rows` most important ones; of equals, the first. Of messages, the newest.
std::vector<LiveLine> chosen(std::vector<Candidate> lines, std::size_t rows, const LiveSize& size,
                             const char* row_name) {
  constexpr int kOldMessage = 5;
  std::size_t hidden_rows = 0;
  while (lines.size() > rows) {
    const auto least = std::ranges::min_element(
        lines, [](const Candidate& a, const Candidate& b) { return a.importance < b.importance; });
    auto victim = least;
    if (least->importance != kOldMessage)  // the last of them
      for (auto each = least; each != lines.end(); ++each)
        if (each->importance == least->importance) victim = each;
    if (victim->is_row) ++hidden_rows;
    lines.erase(victim);
  }
  if (hidden_rows > 0) {
    // In the place of the last that matters little, or else of the last.
    auto last = std::ranges::find(lines.rbegin(), lines.rend(), kRowBeyond, &Candidate::importance);
    if (last == lines.rend()) last = std::ranges::find_if(lines.rbegin(), lines.rend(), &Candidate::is_row);
    if (last != lines.rend())
      last->line = {{fmt::format("      and {} more {}", hidden_rows + 1, row_name), Tone::faint}};
  }
  std::vector<LiveLine> texts;
  for (Candidate& candidate : lines) {
    fit(candidate.line, size);
    texts.push_back(std::move(candidate.line));
  }
  return texts;
}

}  // namespace

std::vector<LiveLine> layout_live(const LiveState& state, const LiveSize& size) {
  const std::size_t rows = static_cast<std::size_t>(std::max(size.rows, 0));
  if (rows == 0) return {};
  const bool has_footer = rows >= 6;
  std::vector<LiveLine> lines = chosen(candidates_of(state, size), has_footer ? rows - 1 : rows, size,
                                       state.cluster ? "shards" : "ranks of this process");
  if (!has_footer) return lines;
  lines.resize(rows - 1);
  LiveLine footer = {
      {state.stopping ? "Ctrl-C ends it at once, without the checkpoint" : "q stops and keeps a checkpoint",
       Tone::faint}};
  fit(footer, size);
  lines.push_back(std::move(footer));
  return lines;
}

}  // namespace trifold
