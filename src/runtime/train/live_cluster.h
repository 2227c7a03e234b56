// What is told of a cluster of servers and workers, for the view that shows it. Amounts are of the run so far; the view
// makes speeds of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trifold {

// A shard is slow, and worth a word, when its steps take so many times as long as the median's.
inline constexpr double kSlowShard = 1.5;

// A part of the training data, which one worker has.
struct LiveShard {
  using Clock = std::chrono::steady_clock;

  std::string worker = {};  // empty: nobody has it
  std::int64_t steps = 0;   // that it has done
  bool awaited = false;     // all others may have to wait for its next one
  std::int64_t timed = 0;   // steps
  double work_ms = 0;       // that these took
  std::int64_t sent_bytes = 0, received_bytes = 0;
  std::int64_t staleness = 0;       // of the values its last step began with
  std::size_t worker_bytes = 0;     // the most memory that its worker's process had
  Clock::time_point heard_at = {};  // the last time it said something; never: see `timed`
};

struct LiveServer {
  std::string name = {};
  std::size_t bytes = 0;  // of the model and its optimiser, that it owns
};

struct LiveCluster {
  enum class State {
    gathering,    // not all members are there yet
    changing,     // servers came or went, and say what they have
    replicating,  // training goes on, but some slices have no second copy yet
    whole,
  };
  State state = State::gathering;
  LiveShard::Clock::time_point told_at = {};
  int workers = 0;
  std::vector<LiveServer> servers = {};
  std::vector<LiveShard> shards = {};  // by number
};

}  // namespace trifold
