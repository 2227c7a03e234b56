// What a rank does now, for whoever looks on: the rank's thread writes, another one reads at any time. A write is a
// look at the clock and three plain stores, which need no lock and no memory; a rank that nobody watches has none.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace trifold {

enum class Activity : std::uint8_t { idle, input, forward, backward, update, communication, device };
inline constexpr std::size_t kActivities = 7;

class RankActivity {
 public:
  using Clock = std::chrono::steady_clock;

  RankActivity() { begin(Activity::idle); }

  // What the rank works on from now on. Its programs are counted from the first chunk's, those for evaluation last.
  void enter(std::size_t program, int micro_batch) {
    program_ = static_cast<std::uint64_t>(program);
    micro_batch_ = static_cast<std::uint64_t>(micro_batch);
  }

  // `node` of the program; -1: no node's work.
  void begin(Activity activity, std::int64_t node = -1, Clock::time_point now = Clock::now()) {
    const std::int64_t now_ns = now.time_since_epoch().count();
    std::atomic<std::int64_t>& spent = spent_ns_[static_cast<std::size_t>(activity_)];
    spent.store(spent.load(std::memory_order_relaxed) + now_ns - since_ns_, std::memory_order_relaxed);
    activity_ = activity;
    since_ns_ = now_ns;
    // One word, so that its parts belong together: whoever reads sees all of it or all of the one before.
    const std::uint64_t word = static_cast<std::uint64_t>(activity) | clipped(program_, kProgramBits) << kProgramAt |
                               clipped(micro_batch_, kMicroBatchBits) << kMicroBatchAt |
                               clipped(static_cast<std::uint64_t>(node + 1), kNodeBits) << kNodeAt |
                               ((static_cast<std::uint64_t>(now_ns) >> kTimeShift) & mask(kTimeBits)) << kTimeAt;
    word_.store(word, std::memory_order_relaxed);
  }

  struct Sample {
    Activity activity = Activity::idle;
    int program = 0;
    int micro_batch = 0;
    std::int64_t node = -1;
    double seconds = 0;                            // since it began
    std::array<double, kActivities> spent_s = {};  // in each, since the rank was first watched
  };
  Sample read(Clock::time_point now = Clock::now()) const {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    Sample sample;
    sample.activity = static_cast<Activity>(word & mask(kProgramAt));
    sample.program = static_cast<int>(word >> kProgramAt & mask(kProgramBits));
    sample.micro_batch = static_cast<int>(word >> kMicroBatchAt & mask(kMicroBatchBits));
    sample.node = static_cast<std::int64_t>(word >> kNodeAt & mask(kNodeBits)) - 1;
    const std::uint64_t ticks =
        ((static_cast<std::uint64_t>(now.time_since_epoch().count()) >> kTimeShift) - (word >> kTimeAt)) &
        mask(kTimeBits);
    // A rank that began something after `now` was read is not one that began ages ago.
    if (ticks < mask(kTimeBits) / 16 * 15) sample.seconds = static_cast<double>(ticks << kTimeShift) / 1e9;
    for (std::size_t i = 0; i < kActivities; ++i)
      sample.spent_s[i] = static_cast<double>(spent_ns_[i].load(std::memory_order_relaxed)) / 1e9;
    sample.spent_s[static_cast<std::size_t>(sample.activity)] += sample.seconds;
    return sample;
  }

 private:
  // From the lowest bit: activity, program, micro-batch, node + 1, and when it began in ticks of 2^18 ns (a quarter of
  // a millisecond), which go round in more than two hours.
  static constexpr int kProgramAt = 4, kProgramBits = 6;
  static constexpr int kMicroBatchAt = kProgramAt + kProgramBits, kMicroBatchBits = 11;
  static constexpr int kNodeAt = kMicroBatchAt + kMicroBatchBits, kNodeBits = 18;
  static constexpr int kTimeAt = kNodeAt + kNodeBits, kTimeBits = 64 - kTimeAt, kTimeShift = 18;
  static constexpr std::uint64_t mask(int bits) { return (std::uint64_t{1} << bits) - 1; }
  static constexpr std::uint64_t clipped(std::uint64_t value, int bits) {
    return value < mask(bits) ? value : mask(bits);
  }

  alignas(64) std::atomic<std::uint64_t> word_ = 0;
  std::array<std::atomic<std::int64_t>, kActivities> spent_ns_ = {};
  // The rank's own:
  Activity activity_ = Activity::idle;
  std::int64_t since_ns_ = Clock::now().time_since_epoch().count();
  std::uint64_t program_ = 0;
  std::uint64_t micro_batch_ = 0;
};

}  // namespace trifold
