#include "parallel/servers/wire/ready_sockets.h"

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace trifold {
namespace {

// While some have messages, the others are looked at so often.
constexpr int kLookEvery = 16;
constexpr std::size_t kBeforeSockets = 2;  // of what is polled

}  // namespace

void ReadySockets::watch(const std::vector<int>& descriptors) {
  polled_.resize(kBeforeSockets);
  for (const int descriptor : descriptors) polled_.push_back({descriptor, POLLIN, 0});
  may_have_.assign(descriptors.size(), true);
}

std::optional<std::size_t> ReadySockets::next() {
  const std::size_t sockets = may_have_.size();
  if (sockets > 1 && ++since_look_ >= kLookEvery) wait(std::chrono::milliseconds(0));
  for (std::size_t i = 0; i < sockets; ++i)
    if (const std::size_t socket = (turn_ + i) % sockets; may_have_[socket]) return socket;
  return std::nullopt;
}

bool ReadySockets::wait(std::chrono::milliseconds timeout) {
  since_look_ = 0;
  const int ready = ::poll(polled_.data(), polled_.size(), static_cast<int>(timeout.count()));
  if (ready < 0 && errno != EINTR) fail_runtime("cannot wait for messages: {}", std::strerror(errno));
  if (ready < 0) return true;
  for (std::size_t i = 0; i < may_have_.size(); ++i)
    if (polled_[i + kBeforeSockets].revents != 0) may_have_[i] = true;
  if (polled_[1].revents != 0 && !may_have_.empty()) may_have_[0] = true;
  return polled_[0].revents != 0;
}

}  // namespace trifold
