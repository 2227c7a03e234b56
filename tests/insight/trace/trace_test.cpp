// A trace is one that Perfetto and chrome://tracing take: every event has its fields, slices of a track nest, arrows go
// forward from slice to slice, counters are of what they say. Read back, it says what the profile says.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "insight/profile/profile.h"
#include "insight/trace/trace_reader.h"
#include "insight/trace/trace_recorder.h"
#include "runtime/checkpoint/temporary_directory.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

Job traced_job(const PlanConfig& plan) {
  Job job = fold_job(small_tutorial(), plan, {});
  job.data.source = synthetic_source(job.model, 64);
  return job;
}

const std::vector<PlanConfig> kTracedPlans = {{},
                                              {.dp = 2},
                                              {.tp = 2},
                                              {.pp = 2, .micro_batches = 4},
                                              {.pp = 2, .schedule = "zero-bubble", .micro_batches = 4},
                                              {.dp = 2, .pp = 2, .micro_batches = 2},
                                              {.dp = 2, .zero = 2}};

struct TrackSlice {
  double begin = 0, end = 0;
  json event = {};
};
using Track = std::pair<int, int>;  // pid, tid

// What is in a trace; the test fails where an event is not as the format has it.
struct ParsedTrace {
  std::map<Track, std::vector<TrackSlice>> tracks;
  struct Arrow {
    std::string name;
    double begin = -1, end = -1;
    Track from, to;
  };
  std::map<std::int64_t, Arrow> arrows;
  std::map<std::pair<int, std::string>, std::vector<std::pair<double, double>>> counters;  // time and value
  std::map<int, std::string> ranks;

  explicit ParsedTrace(const std::filesystem::path& path) {
    std::ifstream file(path);
    const json trace = json::parse(file);
    EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
    EXPECT_TRUE(trace.at("otherData").is_object());
    for (const json& event : trace.at("traceEvents")) add(event);
    check_nesting();
    check_arrows();
    for (auto& [key, values] : counters) {
      if (key.second == "bytes in flight") {
        EXPECT_EQ(values.back().second, 0) << "all has arrived";
      }
      for (const auto& [at, value] : values) EXPECT_GE(value, 0) << key.second;
    }
  }

  std::size_t count(const std::string& arrow) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(arrows, [&](const auto& each) { return each.second.name == arrow; }));
  }

 private:
  void add(const json& event) {
    const std::string phase = event.at("ph");
    ASSERT_TRUE(event.at("name").is_string()) << event;
    ASSERT_TRUE(event.at("pid").is_number_integer() && event.at("tid").is_number_integer()) << event;
    const double ts = event.at("ts");
    const Track track = {event["pid"], event["tid"]};
    if (phase == "X") {
      const double duration = event.at("dur");
      EXPECT_GE(duration, 0) << event;
      EXPECT_TRUE(event.at("cat").is_string()) << event;
      tracks[track].push_back({ts, ts + duration, event});
    } else if (phase == "s" || phase == "f") {
      ASSERT_TRUE(event.at("id").is_number_unsigned()) << "Perfetto drops an arrow with another id";
      EXPECT_EQ(event.at("cat"), event["name"]);
      Arrow& arrow = arrows[event["id"]];
      arrow.name = event["name"];
      double& end = phase == "s" ? arrow.begin : arrow.end;
      EXPECT_EQ(end, -1) << "twice: " << event;
      end = ts;
      (phase == "s" ? arrow.from : arrow.to) = track;
      EXPECT_EQ(event.contains("bp"), phase == "f");
    } else if (phase == "C") {
      ASSERT_EQ(event.at("args").size(), 1U) << event;
      counters[{track.first, event["name"]}].emplace_back(ts, event["args"].begin()->get<double>());
    } else {
      ASSERT_EQ(phase, "M") << event;
      if (event["name"] == "process_name") ranks[track.first] = event.at("args").at("name");
    }
  }

  void check_nesting() {
    for (auto& [track, slices] : tracks) {
      std::vector<TrackSlice> open;
      std::ranges::stable_sort(slices, {}, &TrackSlice::begin);
      for (const TrackSlice& slice : slices) {  // an outer one is written before those in it
        while (!open.empty() && open.back().end <= slice.begin + 1e-4) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(slice.end, open.back().end + 1e-4) << slice.event << " in " << open.back().event;
        }
        open.push_back(slice);
      }
    }
  }

  bool in_a_slice(const Track& track, double at) const {
    return std::ranges::any_of(tracks.at(track), [&](const TrackSlice& slice) {
      return slice.event["cat"] != "layer" && slice.begin <= at && at < slice.end + 1e-4;
    });
  }

  void check_arrows() {
    for (const auto& [id, arrow] : arrows) {
      ASSERT_GE(arrow.begin, 0) << id;
      EXPECT_LE(arrow.begin, arrow.end) << id;
      EXPECT_TRUE(in_a_slice(arrow.from, arrow.begin)) << id;
      EXPECT_TRUE(in_a_slice(arrow.to, arrow.end)) << id;
      EXPECT_EQ(arrow.from == arrow.to, arrow.name == "bucket") << id;
    }
  }
};

TEST(Trace, IsAsTheFormatHasIt) {
  const testing::TemporaryDirectory directory;
  for (const PlanConfig& plan : kTracedPlans) {
    SCOPED_TRACE(fmt::format("dp {} tp {} pp {} {} zero {}", plan.dp, plan.tp, plan.pp, plan.schedule, plan.zero));
    const Profile found = profile(traced_job(plan), {.warmup = 1, .steps = 3, .trace = directory / "trace.json"});
    const ParsedTrace trace(directory / "trace.json");
    EXPECT_EQ(trace.ranks.size(), static_cast<std::size_t>(found.ranks));
    EXPECT_EQ(trace.count("message") > 0, plan.pp > 1);
    EXPECT_EQ(trace.count("bucket") > 0, plan.dp > 1);
    double kernel_ms = 0;
    for (const auto& [track, slices] : trace.tracks)
      for (const TrackSlice& slice : slices) {
        const json& args = slice.event["args"];
        if (args.contains("kernel")) kernel_ms += (slice.end - slice.begin) / 1e3;
        if (slice.event["cat"] != "communication") continue;
        EXPECT_GT(args.at("bytes"), 0) << slice.event;
        EXPECT_EQ(args.at("group").get<std::string>().find(' ') != std::string::npos, true) << slice.event;
        EXPECT_TRUE(args.at("axis") == "data" || args.at("axis") == "tensor") << slice.event;
      }
    double rows_ms = 0;
    for (const ProfileRow& row : found.rows)
      if (!row.implementation.empty() || row.name == "wait for the receiver") rows_ms += row.total_ms;
    EXPECT_NEAR(kernel_ms, rows_ms, 0.01 * rows_ms) << "the trace is the profile's";
  }
}

// Between what is always there and all that was planned; it comes and goes within a step.
TEST(Trace, CountsTheMemoryInUse) {
  const testing::TemporaryDirectory directory;
  for (const PlanConfig& plan : kTracedPlans) {
    const Job job = traced_job(plan);
    profile(job, {.warmup = 0, .steps = 2, .trace = directory / "trace.json"});
    const ParsedTrace trace(directory / "trace.json");
    ParallelModel model(job);
    for (int rank = 0; rank < model.plan().mesh.size(); ++rank) {
      double fixed = 0, all = 0;
      for (const auto& chunk : model.chunks(rank)) {
        const MemoryPlan& memory = chunk->training().program().memory;
        all += static_cast<double>(memory.total_bytes());
        fixed += static_cast<double>(memory.total_bytes() - memory.bytes(Region::arena) - memory.bytes(Region::kept));
      }
      double least = 1e18, most = 0;
      for (const auto& [at, bytes] : trace.counters.at({rank, "memory in use"})) {
        least = std::min(least, bytes);
        most = std::max(most, bytes);
      }
      EXPECT_GE(least, fixed);
      EXPECT_LT(least, most);
      EXPECT_LE(most, all) << "rank " << rank;
      EXPECT_GT(most, fixed + 0.5 * (all - fixed)) << "an arena is hardly larger than what is in it at once";
    }
  }
}

TEST(Trace, ReadBackSaysWhatTheProfileSays) {
  const testing::TemporaryDirectory directory;
  for (const PlanConfig& plan : kTracedPlans) {
    const Profile found = profile(traced_job(plan), {.warmup = 1, .steps = 4, .trace = directory / "trace.json"});
    const TraceSummary read = read_trace(directory / "trace.json");
    EXPECT_EQ(read.fault, "");
    EXPECT_EQ(read.steps, 4);
    ASSERT_EQ(read.ranks.size(), static_cast<std::size_t>(found.ranks));
    StepSplit rows;
    for (const ProfileRow& row : found.rows) {
      const double ms = row.total_ms / found.steps / found.ranks;
      const bool is_message = row.name == "send" || row.name == "receive" || row.name == "wait for the receiver";
      if (row.phase == "idle" || is_message)
        rows.bubble += ms;
      else if (row.phase == "communication")
        rows.exposed_comm += ms;
      else if (row.phase == "input")
        rows.input += ms;
      else if (row.phase == "update")
        rows.optimizer += ms;
      else
        rows.compute += ms;
    }
    // Both are of the same spans, and a trace has nanoseconds.
    constexpr double kClose_ms = 1e-3;
    EXPECT_NEAR(read.mean_ms.exposed_comm, rows.exposed_comm, kClose_ms);
    EXPECT_NEAR(read.mean_ms.bubble, rows.bubble, kClose_ms);
    EXPECT_NEAR(read.mean_ms.input, rows.input, kClose_ms);
    EXPECT_NEAR(read.mean_ms.optimizer, rows.optimizer, kClose_ms);
    EXPECT_NEAR(read.mean_ms.sum(), found.wall_ms / found.steps, kClose_ms);
    for (const auto& [name, arrows] : read.arrows) {
      EXPECT_EQ(arrows.unmatched, 0) << name;
      EXPECT_EQ(arrows.most_backwards_us, 0) << name;
    }
  }
}

// Sums that begin in backward work, on a track of their own until they are waited for.
TEST(Trace, ShowsSumsAsideBesideTheWork) {
  const testing::TemporaryDirectory directory;
  const auto node = [](const char* name, const char* category) {
    return TraceNode{.name = name, .category = category, .kernel = "k\"1\""};
  };
  TraceNode sum = node("all_reduce", TraceCategory::communication);
  sum.axis = "data";
  sum.ranks = {0, 1};
  sum.bytes = sum.sent_bytes = 64;
  sum.aside = true;
  TraceNode join = node("join_sums", TraceCategory::communication);
  join.axis = "data";
  join.ranks = {0, 1};
  join.joins = true;
  TraceNode later_sum = sum;
  sum.made_by = 0;
  const TraceRank rank{.rank = 0,
                       .name = "rank 0",
                       .chunks = {{node("work", TraceCategory::weight_gradient), sum,
                                   node("more", TraceCategory::weight_gradient), later_sum, join}}};
  const TraceStep::Time zero(1h);
  std::vector<Span> spans;
  for (int i = 0; i < 5; ++i)
    spans.push_back({Span::Kind::node, 0, i, 0, zero + (10 + 20 * i) * 1us, zero + (25 + 20 * i) * 1us});
  TraceWriter writer(directory / "trace.json", {rank}, zero);
  const TraceStep step{
      .begin = zero, .loaded = zero + 5us, .worked = zero + 120us, .end = zero + 130us, .loss_scale = 4};
  writer.write_step(std::vector<TracedStep>{{step, spans}});
  writer.note("processes", 1);
  writer.finish();

  const ParsedTrace trace(directory / "trace.json");
  const std::vector<TrackSlice>& aside = trace.tracks.at({0, 2});
  ASSERT_EQ(aside.size(), 2U);
  EXPECT_DOUBLE_EQ(aside[0].begin, 30);
  EXPECT_DOUBLE_EQ(aside[0].end, 105);
  EXPECT_DOUBLE_EQ(aside[1].begin, 70);
  EXPECT_DOUBLE_EQ(aside[1].end, 105);
  EXPECT_EQ(trace.count("bucket"), 3U) << "from the last gradient to its sum, and from both sums to where they end";
  const auto& bytes = trace.counters.at({0, "bytes in flight"});
  EXPECT_EQ(bytes, (std::vector<std::pair<double, double>>{{30, 64}, {70, 128}, {105, 64}, {105, 0}}));
  EXPECT_EQ(trace.counters.at({0, "loss scale"}).front().second, 4);
}

}  // namespace
}  // namespace trifold::test
