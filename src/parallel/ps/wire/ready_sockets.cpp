#include "parallel/ps/wire/ready_sockets.h"

#include <cerrno>
#include <cstring>

#include "runtime/core/error.h"

namespace trifold {
namespace {

// While some have messages, the others are looked at so often.
constexpr int kLookEvery = 16;

}  // namespace

void ReadySockets::watch(const std::vector<int>& descriptors) {
  polled_.resize(1);
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
  for (std::size_t i = 1; i < polled_.size(); ++i)
    if (polled_[i].revents != 0) may_have_[i - 1] = true;
  return polled_[0].revents != 0;
}

}  // namespace trifold
