// What a rank did, and when: a span for each node it ran, each batch it copied, and each time it had no part of the
// step to do. Programs and the rank's step
// write to it while it is attached to them; whoever reads it does so between steps. It allocates only where it grows,
// and a reader that clears it between steps keeps it from growing. With a recorder, what a device does for a node is
// noted there under the node's tag.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/device_activity.h"

namespace trifold {

// What work given to a device is for, as one number that is never 0.
struct WorkTag {
  int rank = 0;
  int chunk = 0;
  int node = 0;
  int micro_batch = 0;

  std::uint64_t packed() const {
    return kIsTag | (field(rank, 15) << 48) | (field(chunk, 8) << 40) | (field(node, 20) << 20) |
           field(micro_batch, 20);
  }
  static WorkTag of(std::uint64_t tag) {
    const auto part = [&](int shift, int bits) { return static_cast<int>((tag >> shift) & ((1u << bits) - 1)); };
    return {.rank = part(48, 15), .chunk = part(40, 8), .node = part(20, 20), .micro_batch = part(0, 20)};
  }
  bool operator==(const WorkTag&) const = default;

 private:
  static constexpr std::uint64_t kIsTag = std::uint64_t{1} << 63;
  static std::uint64_t field(int value, int bits) { return static_cast<std::uint64_t>(value) & ((1u << bits) - 1); }
};

struct Span {
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint8_t {
    node,    // a node's work; of an exchange, the wait for other ranks too
    settle,  // waiting until what a node sent has arrived
    input,   // copying a batch to where the program reads it
    idle,    // before the rank's part of a step, and after it
  };

  Kind kind = Kind::node;
  std::int16_t chunk = 0;  // of the rank's stage
  std::int32_t node = -1;  // of that chunk's training program
  std::int32_t micro_batch = 0;
  Clock::time_point begin = {};
  Clock::time_point end = {};

  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
};

class SpanLog {
 public:
  explicit SpanLog(int rank = 0, ActivityRecorder* recorder = nullptr) : rank_(rank), recorder_(recorder) {}

  ActivityRecorder* recorder() const { return recorder_; }  // null: none
  std::uint64_t tag(std::size_t node) const {
    return WorkTag{.rank = rank_, .chunk = chunk_, .node = static_cast<int>(node), .micro_batch = micro_batch_}
        .packed();
  }

  // What the rank works on from now on.
  void enter(std::size_t chunk, int micro_batch) {
    chunk_ = static_cast<std::int16_t>(chunk);
    micro_batch_ = micro_batch;
  }
  void add(Span::Kind kind, std::int32_t node, Span::Clock::time_point begin, Span::Clock::time_point end) {
    spans_.push_back({kind, chunk_, node, micro_batch_, begin, end});
  }
  const std::vector<Span>& spans() const { return spans_; }
  void clear() { spans_.clear(); }

 private:
  std::vector<Span> spans_;
  std::int16_t chunk_ = 0;
  std::int32_t micro_batch_ = 0;
  int rank_;
  ActivityRecorder* recorder_;
};

}  // namespace trifold
