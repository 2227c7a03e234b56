#include "runtime/cluster/durable_progress.h"

namespace trifold {
namespace {

constexpr std::chrono::seconds kTryAgain{1};

}  // namespace

void DurableProgress::reached(const TrainingState& state, Time now) {
  unnoted_ = state;
  tried_ = {};
  try_again(now);
}

void DurableProgress::try_again(Time now) {
  if (!unnoted_ || (tried_ != Time() && now - tried_ < kTryAgain)) return;
  tried_ = now;
  if (note_(*unnoted_)) unnoted_.reset();
}

std::optional<std::int64_t> DurableProgress::take_unneeded_cut() {
  if (unnoted_ || done_ <= released_) return std::nullopt;
  released_ = done_;
  return done_;
}

}  // namespace trifold
