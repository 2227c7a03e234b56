// The live view's screen at some sizes, as text.
#include "insight/live/live_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trifold {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LiveRank some_rank(int rank) {
  return {.rank = rank,
          .place = "dp " + std::to_string(rank / 2) + " pp " + std::to_string(rank % 2),
          .activity = rank % 2 == 0 ? Activity::forward : Activity::communication,
          .work = rank % 2 == 0 ? "stage2/block1/conv1" : "receive",
          .micro_batch = rank,
          .seconds = 0.0123,
          .compute = 0.83,
          .communication = 0.1,
          .input = 0.01,
          .idle = 0.06,
          .plan_bytes = 45'000'000};
}

LiveState some_state(int ranks = 4) {
  LiveState state{.job = "resnet20", .plan = "dp=2 pp=2, 1f1b, 8 micro-batches", .doing = "training"};
  state.elapsed_s = 192;
  state.epoch = 3;
  state.epochs = 160;
  state.step = 120;
  state.steps = 391;
  state.left_s = 7384;
  state.images_per_s = 1351.2;
  state.mean_images_per_s = 1322;
  state.losses = {2.3, 2.0, 1.7, 1.4, 1.1, 0.8, 0.6, 0.5, 0.45, 0.43};
  state.loss = 0.4321;
  state.least_loss = 0.4011;
  state.train_accuracy = 0.8512;
  state.test_accuracy = 0.832;
  state.best_test_accuracy = 0.8401;
  state.learning_rate = 0.0998;
  state.loss_scale = 65536;
  state.skipped_updates = 3;
  state.checkpoint_step = 782;
  state.process_bytes = 312'000'000;
  for (int rank = 0; rank < ranks; ++rank) state.ranks.push_back(some_rank(rank));
  state.messages = {{"epoch   1/160  loss 1.5000", Tone::plain}, {"the disk is nearly full", Tone::warning}};
  return state;
}

std::string text_of(const std::vector<LiveLine>& lines) {
  std::string text;
  for (const LiveLine& line : lines) {
    std::string plain = plain_text(line);
    plain.erase(plain.find_last_not_of(' ') + 1);
    text += plain + '\n';
  }
  return text;
}

TEST(LiveFormat, AScreenOf80By24) {
  EXPECT_EQ(text_of(layout_live(some_state(), {.columns = 80, .rows = 24})),
            R"(trifold  resnet20  dp=2 pp=2, 1f1b, 8 micro-batches                         3:12
training                                            has a checkpoint of step 782

epoch 3/160  120/391 ██████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  ETA 2:03:04

images/s      1351 now      1322 mean
loss        0.4321 now    0.4011 min  █▇▆▅▃▂▁▁▁▁
accuracy   85.12 % train 83.20 % test   84.01 % best
rate        0.0998   loss scale 65536, 3 updates skipped
memory    312.0 MB of this process, 180.0 MB planned

rank  place      does      mb   layer            for comp. comm.  idle   planned
   0  dp 0 pp 0  forward   0    ..ck1/conv1    12 ms  83 %  10 %   6 %   45.0 MB
   1  dp 0 pp 1  exchange  1    receive        12 ms  83 %  10 %   6 %   45.0 MB
   2  dp 1 pp 0  forward   2    ..ck1/conv1    12 ms  83 %  10 %   6 %   45.0 MB
   3  dp 1 pp 1  exchange  3    receive        12 ms  83 %  10 %   6 %   45.0 MB

epoch   1/160  loss 1.5000
the disk is nearly full




q stops and keeps a checkpoint
)");
}

TEST(LiveFormat, ANarrowScreenWithoutUnicode) {
  EXPECT_EQ(text_of(layout_live(some_state(), {.columns = 44, .rows = 14, .glyphs = Glyphs::ascii})),
            R"(trifold  resnet20  dp=2 pp=2, 1f1b, 8 micro-
training        has a checkpoint of step 782
epoch 3/160  120/391 ###.......  ETA 2:03:04
images/s      1351 now      1322 mean
loss        0.4321 now    0.4011 min  #%=.__
accuracy   85.12 % train 83.20 % test   84.0
rate        0.0998   loss scale 65536, 3 upd
memory    312.0 MB of this process, 180.0 MB
rank  does      mb   layer     for   planned
   0  forward   0    ..v1    12 ms   45.0 MB
   1  exchange  1    ..ve    12 ms   45.0 MB
   2  forward   2    ..v1    12 ms   45.0 MB
   3  exchange  3    ..ve    12 ms   45.0 MB
q stops and keeps a checkpoint
)");
}

LiveState state_of_cluster(int shards = 4) {
  LiveState state = some_state(0);
  state.job = "mnist";
  state.plan = "ssp: 2 servers, 4 workers, staleness 2";
  state.loss_scale = std::nullopt;
  LiveClusterState cluster{.state = LiveCluster::State::whole, .workers = 4};
  cluster.servers = {{"server-vm-4711", 2'100'000}, {"server-vm-4712", 1'900'000}};
  for (int i = 0; i < shards; ++i)
    cluster.shards.push_back({.shard = i,
                              .worker = "worker-vm-" + std::to_string(4713 + i),
                              .steps = 902 - i,
                              .behind = i,
                              .step_ms = 12.3,
                              .staleness = i % 3,
                              .sent_per_s = 4.5e6,
                              .received_per_s = 8.1e6,
                              .worker_bytes = 81'000'000,
                              .silent_s = 0.01});
  state.cluster = cluster;
  return state;
}

TEST(LiveFormat, AClusterOn100By24) {
  LiveState state = state_of_cluster();
  state.cluster->shards[2].worker.clear();
  state.cluster->shards[2].silent_s = 4.2;
  state.cluster->shards[3] = {.shard = 3, .worker = "worker-vm-4716", .behind = 902};
  EXPECT_EQ(text_of(layout_live(state, {.columns = 100, .rows = 24})),
            R"(trifold  mnist  ssp: 2 servers, 4 workers, staleness 2                                          3:12
training                                                                has a checkpoint of step 782

epoch 3/160  120/391 ██████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  ETA 2:03:04

images/s      1351 now      1322 mean
loss        0.4321 now    0.4011 min  █▇▆▅▃▂▁▁▁▁
accuracy   85.12 % train 83.20 % test   84.01 % best
rate        0.0998
cluster   2 servers, 4 workers; every slice has its replica
servers   server-vm-4711 2.1 MB, server-vm-4712 1.9 MB

shard  worker               steps  behind  stale     step       sends    receives    memory    heard
   0   worker-vm-4713         902       -      -    12 ms    4.5 MB/s    8.1 MB/s   81.0 MB    10 ms
   1   worker-vm-4714         901       1      1    12 ms    4.5 MB/s    8.1 MB/s   81.0 MB    10 ms
   2   nobody                 900       2      2    12 ms    4.5 MB/s    8.1 MB/s   81.0 MB    4.2 s
   3   worker-vm-4716           0     902      -        -           -           -         -    never

epoch   1/160  loss 1.5000
the disk is nearly full



q stops and keeps a checkpoint
)");
}

TEST(LiveFormat, AClusterOnANarrowScreen) {
  EXPECT_EQ(text_of(layout_live(state_of_cluster(), {.columns = 60, .rows = 16, .glyphs = Glyphs::ascii})),
            R"(trifold  mnist  ssp: 2 servers, 4 workers, staleness 2  3:12
training                        has a checkpoint of step 782
epoch 3/160  120/391 #######...................  ETA 2:03:04
images/s      1351 now      1322 mean
loss        0.4321 now    0.4011 min  #%*+-.____
accuracy   85.12 % train 83.20 % test   84.01 % best
rate        0.0998
cluster   2 servers, 4 workers; every slice has its replica
shard  worker         steps  behind  stale     step    heard
   0   ..-vm-4713       902       -      -    12 ms    10 ms
   1   ..-vm-4714       901       1      1    12 ms    10 ms
   2   ..-vm-4715       900       2      2    12 ms    10 ms
   3   ..-vm-4716       899       3      -    12 ms    10 ms
epoch   1/160  loss 1.5000
the disk is nearly full
q stops and keeps a checkpoint
)");
}

TEST(LiveFormat, OfManyShardsThoseThatOthersWaitForAreShown) {
  LiveState state = state_of_cluster(100);
  state.cluster->shards[77].slow = true;
  state.cluster->shards[88].missed = true;
  state.cluster->shards[99].worker.clear();
  const std::vector<LiveLine> lines = layout_live(state, {.columns = 100, .rows = 24});
  const std::string text = text_of(lines);
  for (const char* shown :
       {"\n   0  ", "\n   3  ", "\n  77  ", "\n  88  ", "\n  99   nobody", "\n      and 89 more shards"})
    EXPECT_THAT(text, HasSubstr(shown));
  const auto tone_of = [&](const std::string& begin, const std::string& end) {
    for (const LiveLine& line : lines)
      if (plain_text(line).starts_with(begin))
        for (const LiveRunOfText& run : line)
          if (run.text.ends_with(end)) return run.tone;
    return Tone::faint;
  };
  EXPECT_EQ(tone_of("   0", "12 ms"), Tone::plain);
  EXPECT_EQ(tone_of("  77", "12 ms"), Tone::warning);
  EXPECT_EQ(tone_of("  88", "10 ms"), Tone::warning);
}

TEST(LiveFormat, WhatIsWrongWithAClusterIsNotLeftOut) {
  for (const auto& [state, words] : {std::pair{LiveCluster::State::gathering, "waiting for members"},
                                     std::pair{LiveCluster::State::changing, "who has what is settled"},
                                     std::pair{LiveCluster::State::replicating, "slices are on their way"}}) {
    LiveState shown = state_of_cluster();
    shown.cluster->state = state;
    EXPECT_THAT(text_of(layout_live(shown, {.columns = 80, .rows = 8})), HasSubstr(words));
  }
  LiveState alone = state_of_cluster();
  alone.cluster->servers.pop_back();
  EXPECT_THAT(text_of(layout_live(alone, {.columns = 80, .rows = 24})), HasSubstr("1 server, 4 workers; one server"));
}

TEST(LiveFormat, NeverLargerThanTheTerminal) {
  for (int rows = 0; rows <= 40; ++rows)
    for (const int columns : {0, 1, 5, 20, 43, 57, 58, 70, 80, 92, 200}) {
      const std::vector<LiveLine> lines = layout_live(some_state(9), {.columns = columns, .rows = rows});
      EXPECT_LE(lines.size(), static_cast<std::size_t>(rows));
      for (const LiveLine& line : lines) EXPECT_LE(columns_of(plain_text(line)), columns);
      const std::vector<LiveLine> of_cluster = layout_live(state_of_cluster(9), {.columns = columns, .rows = rows});
      EXPECT_LE(of_cluster.size(), static_cast<std::size_t>(rows));
      for (const LiveLine& line : of_cluster) EXPECT_LE(columns_of(plain_text(line)), columns);
    }
}

TEST(LiveFormat, FewRowsKeepWhatMattersMost) {
  const std::string text = text_of(layout_live(some_state(), {.columns = 80, .rows = 4}));
  EXPECT_THAT(text, HasSubstr("ETA 2:03:04"));
  EXPECT_THAT(text, HasSubstr("0.4321 now"));
  EXPECT_THAT(text, HasSubstr("1351 now"));
  EXPECT_THAT(text, Not(HasSubstr("rank")));
}

TEST(LiveFormat, RanksThatDoNotFitAreCounted) {
  const std::string text = text_of(layout_live(some_state(64), {.columns = 80, .rows = 24}));
  EXPECT_THAT(text, HasSubstr("\n   0  dp 0 pp 0"));
  EXPECT_THAT(text, HasSubstr("the disk is nearly full"));
  int shown = 0;
  for (std::size_t at = 0; (at = text.find("  dp ", at)) != std::string::npos; ++at) ++shown;
  EXPECT_THAT(text, HasSubstr("and " + std::to_string(64 - shown) + " more ranks of this process"));
}

TEST(LiveFormat, RanksOfOtherProcessesAreSaid) {
  LiveState state = some_state(2);
  state.ranks_elsewhere = 6;
  state.processes = 4;
  EXPECT_THAT(text_of(layout_live(state, {})), HasSubstr("6 more ranks in 3 other processes"));
  state.ranks_elsewhere = 1;
  state.processes = 2;
  EXPECT_THAT(text_of(layout_live(state, {})), HasSubstr("1 more rank in 1 other process\n"));
}

TEST(LiveFormat, BeforeTheFirstStepItSaysWhatItDoes) {
  LiveState state{.doing = "preparing"};
  const std::string text = text_of(layout_live(state, {.columns = 60, .rows = 10}));
  EXPECT_THAT(text, HasSubstr("preparing"));
  EXPECT_THAT(text, Not(HasSubstr("loss")));
  EXPECT_THAT(text, HasSubstr("q stops"));
}

TEST(LiveFormat, StoppingIsSaidAndHowToEndAtOnce) {
  LiveState state = some_state();
  state.stopping = true;
  state.writing_checkpoint = true;
  const std::string text = text_of(layout_live(state, {}));
  EXPECT_THAT(text, HasSubstr("stopping; a checkpoint is kept"));
  EXPECT_THAT(text, HasSubstr("writing the checkpoint of step 782"));
  EXPECT_THAT(text, HasSubstr("Ctrl-C ends it at once"));
}

TEST(LiveFormat, BestValuesAndWarningsHaveTheirTones) {
  const auto tone_of = [](const LiveState& state, const std::string& part) {
    for (const LiveLine& line : layout_live(state, {}))
      for (const LiveRunOfText& run : line)
        if (run.text.find(part) != std::string::npos) return run.tone;
    return Tone::faint;
  };
  LiveState state = some_state();
  EXPECT_EQ(tone_of(state, "0.4321 now"), Tone::plain);
  EXPECT_EQ(tone_of(state, "83.20 % test"), Tone::plain);
  EXPECT_EQ(tone_of(state, "disk"), Tone::warning);
  EXPECT_EQ(tone_of(state, "3 updates skipped"), Tone::warning);
  state.least_loss = state.loss;
  state.best_test_accuracy = state.test_accuracy;
  EXPECT_EQ(tone_of(state, "0.4321 now"), Tone::good);
  EXPECT_EQ(tone_of(state, "83.20 % test"), Tone::good);
  state.input_wait_fraction = 0.2;
  EXPECT_EQ(tone_of(state, "waits for data 20 %"), Tone::warning);
}

TEST(LiveFormat, NamesCannotMoveTheCursor) {
  LiveState state = some_state();
  state.job = "evil\x1b[2Jn\u00e4me\n";
  EXPECT_THAT(text_of(layout_live(state, {})), HasSubstr("evil?[2Jn\u00e4me?"));
  EXPECT_THAT(text_of(layout_live(state, {.glyphs = Glyphs::ascii})), HasSubstr("evil?[2Jn??me?"));
}

TEST(LiveFormat, ShortDurationsAndBytes) {
  EXPECT_EQ(format_short_duration(0), "0.0 ms");
  EXPECT_EQ(format_short_duration(0.00034), "0.3 ms");
  EXPECT_EQ(format_short_duration(0.00996), "10 ms");
  EXPECT_EQ(format_short_duration(0.9996), "1.0 s");
  EXPECT_EQ(format_short_duration(4.24), "4.2 s");
  EXPECT_EQ(format_short_duration(185), "3:05");
  EXPECT_EQ(format_live_bytes(12), "12 B");
  EXPECT_EQ(format_live_bytes(45'000'000), "45.0 MB");
  EXPECT_EQ(format_live_bytes(999'600), "1.0 MB");
  EXPECT_EQ(format_live_bytes(7'250'000'000), "7.25 GB");
}

}  // namespace
}  // namespace trifold
