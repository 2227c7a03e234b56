#include "parallel/processes/time_offset.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace trifold {
namespace {

constexpr int kQuestions = 200;  // of each process

// Sends and receives a time at once: neither side waits for the other to have taken its message first.
std::int64_t exchange_time(Communicator& group, int other, std::int64_t mine) {
  std::int64_t theirs = 0;
  const Ticket answer = group.receive(std::as_writable_bytes(std::span(&theirs, 1)), other);
  const Ticket question = group.send(std::as_bytes(std::span(&mine, 1)), other);
  group.wait(answer);
  group.wait(question);
  return theirs;
}

void answer_questions(Communicator& group, const std::function<std::int64_t()>& now) {
  for (int i = 0; i < kQuestions; ++i) {
    std::int64_t question = 0;
    group.wait(group.receive(std::as_writable_bytes(std::span(&question, 1)), 0));
    const std::int64_t time = now();
    group.wait(group.send(std::as_bytes(std::span(&time, 1)), 0));
  }
}

ClockReading ask(Communicator& group, int other, const std::function<std::int64_t()>& now) {
  ClockReading best;
  for (int i = 0; i < kQuestions; ++i) {
    const std::int64_t asked = now();
    const std::int64_t theirs = exchange_time(group, other, asked);
    const std::int64_t answered = now();
    const std::int64_t half = (answered - asked + 1) / 2;
    if (i == 0 || half < best.uncertainty) best = {asked + half, theirs - (asked + half), half};
  }
  return best;
}

}  // namespace

std::vector<ClockReading> read_clocks(Communicator& group, const std::function<std::int64_t()>& now) {
  if (group.rank() != 0) {
    answer_questions(group, now);
    return {};
  }
  std::vector<ClockReading> readings = {{.at = now()}};
  for (int other = 1; other < group.size(); ++other) readings.push_back(ask(group, other, now));
  return readings;
}

std::int64_t AlignedClock::by_first(std::int64_t time) const {
  const auto passed = static_cast<double>(time - (first_.at + first_.ahead));
  const auto between = static_cast<double>((last_.at + last_.ahead) - (first_.at + first_.ahead));
  const double drift = between > 0 ? static_cast<double>(last_.ahead - first_.ahead) / between : 0;
  return time - first_.ahead - std::llround(drift * passed);
}

std::int64_t AlignedClock::uncertainty() const {
  return std::max(first_.uncertainty, last_.uncertainty);
}

}  // namespace trifold
