// Makes what the view shows of what the board says now and said a moment ago: speeds and shares are of the last
// seconds.
#pragma once

#include <deque>
#include <string_view>

#include "insight/live/cluster_sampler.h"
#include "insight/live/live_format.h"
#include "runtime/train/live_board.h"

namespace trifold {

class LiveSampler {
 public:
  using Clock = LiveBoard::Clock;

  explicit LiveSampler(Clock::time_point begin = Clock::now()) : begin_(begin) {}

  // `run`: null until it is known. Called some ten times a second.
  LiveState sample(const LiveBoard::Reading& reading, const LiveRun* run);

  // What was written to standard error, in pieces of any length: its last lines are shown.
  void heard(std::string_view text);

 private:
  using Spent = std::array<double, kActivities>;
  struct Moment {
    Clock::time_point at;
    std::vector<Spent> of_ranks = {};
  };
  struct Step {
    Clock::time_point at;  // its end
    std::int64_t images = 0;
  };
  LiveRank rank_of(const LiveBoard::Reading& reading, const LiveRun& run, std::size_t index) const;
  double images_per_s(const LiveBoard::Reading& reading);

  Clock::time_point begin_;
  std::deque<Moment> moments_;  // of the last second, the oldest first
  std::deque<Step> steps_;      // of the last seconds, but at least two
  ClusterSampler cluster_;
  std::vector<LiveMessage> messages_;
  std::string unfinished_;  // line
};

// A line of a log as the view shows it: without colours, date and name of the logger, in the tone of its level.
LiveMessage message_of(std::string_view line);

// Memory of this process that is in use now.
std::size_t resident_bytes();

}  // namespace trifold
