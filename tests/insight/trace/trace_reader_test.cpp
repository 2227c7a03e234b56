// A trace that is read back says what its steps were spent on, and a file that is broken says where.
#include "insight/trace/trace_reader.h"

#include <sstream>

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

std::string slice_event(const char* category, int rank, int track, double begin, double end,
                        const std::string& args = "") {
  return fmt::format(R"({{"ts":{},"dur":{},"ph":"X","name":"{} slice","cat":"{}","pid":{},"tid":{},"args":{{{}}}}})",
                     begin, end - begin, category, category, rank, track, args);
}
std::string arrow_event(char phase, int id, double at) {
  return fmt::format(R"({{"ts":{},"ph":"{}","name":"message","cat":"message","id":{},"pid":0,"tid":0}})", at, phase,
                     id);
}
std::string trace_of(const std::vector<std::string>& events) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n],\"otherData\":{{\"processes\":2}}}}\n",
                     fmt::join(events, ",\n"));
}
TraceSummary read_text(const std::string& text) {
  std::istringstream stream(text);
  return read_trace(stream, "t.json");
}
std::string error_of(const std::string& text) {
  try {
    read_text(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// 1 ms a step, of which: 100 us loading, 50 copying, 200 forward, 100 in a collective, 150 in messages, 60 in the
// update, 40 idle.
std::vector<std::string> step_events(int rank, double at, const std::string& args = "") {
  return {
      slice_event("step", rank, 1, at, at + 1000, args),         slice_event("input", rank, 1, at, at + 100),
      slice_event("host", rank, 1, at + 950, at + 1000),         slice_event("input", rank, 0, at + 100, at + 150),
      slice_event("layer", rank, 0, at + 150, at + 350),         slice_event("forward", rank, 0, at + 150, at + 350),
      slice_event("communication", rank, 0, at + 350, at + 450), slice_event("message", rank, 0, at + 460, at + 610),
      slice_event("aside", rank, 2, at + 200, at + 610),         slice_event("update", rank, 0, at + 610, at + 670),
      slice_event("idle", rank, 0, at + 670, at + 710)};
}
std::vector<std::string> joined(std::vector<std::string> events, const std::vector<std::string>& more) {
  events.insert(events.end(), more.begin(), more.end());
  return events;
}

TEST(TraceReader, SaysWhatStepsWereSpentOn) {
  const TraceSummary found =
      read_text(trace_of(joined(step_events(0, 0), joined(step_events(1, 0), step_events(0, 2000)))));
  ASSERT_EQ(found.ranks.size(), 2U);
  EXPECT_EQ(found.fault, "");
  EXPECT_EQ(found.steps, 2);
  EXPECT_EQ(found.ranks[1].steps, 1);
  EXPECT_DOUBLE_EQ(found.span_ms, 3);
  EXPECT_EQ(found.rounds, 0);
  for (const StepSplit& split : {found.ranks[0].step_ms, found.ranks[1].step_ms, found.mean_ms}) {
    EXPECT_NEAR(split.exposed_comm, 0.1, 1e-9);
    EXPECT_NEAR(split.bubble, 0.15 + 0.04, 1e-9) << "messages, and what is before and after the work";
    EXPECT_NEAR(split.input, 0.1 + 0.05, 1e-9);
    EXPECT_NEAR(split.optimizer, 0.06, 1e-9);
    EXPECT_NEAR(split.sum(), 1, 1e-9) << "compute is the rest";
  }
  EXPECT_EQ(found.notes.at("processes"), 2);
}

TEST(TraceReader, FindsTheLongestTimesWithoutAKernel) {
  const TraceSummary found = read_text(trace_of(step_events(0, 0)));
  ASSERT_EQ(found.gaps.size(), 3U);
  EXPECT_NEAR(found.gaps[0].ms, 0.33, 1e-9);
  EXPECT_EQ(found.gaps[0].after, "update slice");
  EXPECT_EQ(found.gaps[0].before, "") << "the step's end";
  EXPECT_EQ(found.gaps[0].in, "idle slice");
  EXPECT_NEAR(found.gaps[1].ms, 0.26, 1e-9);
  EXPECT_EQ(found.gaps[1].in, "message slice") << "the longer of the two waits in it";
  EXPECT_EQ(found.gaps[1].before, "update slice");
  EXPECT_NEAR(found.gaps[2].ms, 0.1, 1e-9);
  EXPECT_EQ(found.gaps[2].after, "the step's begin");
}

// As compare shows it: the lower median of what the rounds did a second.
TEST(TraceReader, OfAComparisonShowsTheMedianRound) {
  std::vector<std::string> events;
  const double lengths[] = {1000, 3000, 2000};
  double at = 0;
  for (int round = 0; round < 3; ++round) {
    const double length = lengths[round];
    events.push_back(slice_event("step", 0, 1, at, at + length, fmt::format("\"step\":7,\"round\":{}", round)));
    events.push_back(slice_event("message", 0, 0, at, at + 100 * (round + 1)));
    at += length;
  }
  const TraceSummary found = read_text(trace_of(events));
  EXPECT_EQ(found.rounds, 3);
  EXPECT_EQ(found.round, 2);
  EXPECT_NEAR(found.mean_ms.bubble, 0.3, 1e-9);
  EXPECT_NEAR(found.mean_ms.sum(), 2, 1e-9);
  EXPECT_EQ(found.steps, 3);
}

TEST(TraceReader, MatchesArrows) {
  const TraceSummary found = read_text(
      trace_of(joined(step_events(0, 0), {arrow_event('s', 1, 10), arrow_event('f', 1, 20), arrow_event('f', 2, 28.5),
                                          arrow_event('s', 2, 30), arrow_event('s', 3, 40)})));
  const TraceArrows& arrows = found.arrows.at("message");
  EXPECT_EQ(arrows.matched, 2);
  EXPECT_EQ(arrows.unmatched, 1);
  EXPECT_DOUBLE_EQ(arrows.most_backwards_us, 1.5);
}

TEST(TraceReader, GivesWhatItReadOfAFileThatIsCutOff) {
  const std::string whole = trace_of(joined(step_events(1, 0), joined(step_events(0, 0), step_events(0, 2000))));
  const std::size_t second = whole.find("\"ts\":2000");
  for (const std::size_t size : {second + 3, second + 60, whole.size() - 5}) {
    const TraceSummary found = read_text(whole.substr(0, size));
    EXPECT_NE(found.fault.find("ends in the middle, at byte "), std::string::npos) << found.fault;
    EXPECT_NE(found.fault.find(size < second + 100 ? "line 24" : "line 3"), std::string::npos) << found.fault;
    // The step that was begun last may not be all there.
    ASSERT_EQ(found.ranks.size(), size < second + 100 ? 1U : 2U);
    EXPECT_EQ(found.steps, 1);
    EXPECT_NEAR(found.ranks.back().step_ms.exposed_comm, 0.1, 1e-9);
  }
}

// Whatever a file is cut off in: a number, a word, a name.
TEST(TraceReader, AnyCutIsAnEnd) {
  const std::string text = trace_of(joined(joined(step_events(1, 0), step_events(0, 0)),
                                           {R"({"ph":"C","name":"x","on":true,"pid":0,"tid":0,"ts":-1.5e3})"}));
  const std::size_t last = text.rfind("{\"ph\"");
  for (std::size_t size = last + 1; size < last + 50; ++size)
    EXPECT_NE(read_text(text.substr(0, size)).fault.find("ends in the middle, at byte "), std::string::npos)
        << text.substr(last, size - last);
}

TEST(TraceReader, SaysWhereAFileIsBroken) {
  const std::vector<std::string> events = joined(step_events(1, 0), step_events(0, 0));
  std::string text = trace_of(events);
  text.replace(text.rfind("\"update\""), 1, "}");
  EXPECT_NE(read_text(text).fault.find("is no JSON any more at byte "), std::string::npos) << read_text(text).fault;
  EXPECT_NE(read_text(text).fault.find("line 22"), std::string::npos) << read_text(text).fault;
  const TraceSummary no_duration =
      read_text(trace_of(joined(events, {R"({"ph":"X","name":"x","cat":"forward","pid":0,"tid":0,"ts":3})"})));
  EXPECT_NE(no_duration.fault.find("event 23 ('x', phase X) has no \"dur\""), std::string::npos) << no_duration.fault;
  const TraceSummary twice = read_text(trace_of(joined(events, {arrow_event('s', 1, 10), arrow_event('s', 1, 20)})));
  EXPECT_NE(twice.fault.find("arrow 1 has two begins"), std::string::npos) << twice.fault;
  EXPECT_NE(error_of(trace_of(step_events(0, 0)).substr(0, 900)).find("no whole step was read"), std::string::npos);
}

TEST(TraceReader, RefusesWhatHasNoSteps) {
  EXPECT_NE(error_of("{}").find("'t.json' has 0 events, but no step"), std::string::npos) << error_of("{}");
  EXPECT_NE(error_of("[]").find("no step"), std::string::npos);
  EXPECT_NE(error_of("").find("ends in the middle, at byte "), std::string::npos) << error_of("");
  EXPECT_NE(error_of("no trace").find("is no JSON any more at byte "), std::string::npos) << error_of("no trace");
  EXPECT_NE(error_of(trace_of({slice_event("forward", 0, 0, 1, 2)})).find("no step"), std::string::npos);
}

// The array alone is a trace, too.
TEST(TraceReader, TakesAPlainArrayOfEvents) {
  const TraceSummary found = read_text(fmt::format("[{}]", fmt::join(step_events(0, 0), ",")));
  EXPECT_EQ(found.steps, 1);
  EXPECT_NEAR(found.mean_ms.exposed_comm, 0.1, 1e-9);
}

}  // namespace
}  // namespace trifold
