#include "parallel/servers/wire/refusals.h"

#include <spdlog/spdlog.h>

namespace trifold {

void Refusals::note(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  ++count_;
  const auto now = std::chrono::steady_clock::now();
  if (now < quiet_until_) {
    ++unsaid_;
    return;
  }
  if (unsaid_ == 0)
    spdlog::warn("{}", sentence);
  else
    spdlog::warn("{} (and {} others were refused since the last such line)", sentence, unsaid_);
  unsaid_ = 0;
  quiet_until_ = now + std::chrono::seconds(1);
}

std::uint64_t Refusals::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace trifold
