// What a rank did, and when: a span for each node it ran and for each batch it copied. Programs and the rank's step write
// to it while it is attached to them; whoever reads it does so between steps. It allocates only where it grows, and a
// reader that clears it between steps keeps it from growing.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace trifold {

struct Span {
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint8_t {
    node,    // a node's work; of an exchange, the wait for other ranks too
    settle,  // waiting until what a node sent has arrived
    input,   // copying a batch to where the program reads it
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
};

}  // namespace trifold
