#include "parallel/servers/wire/event_descriptor.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/eventfd.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {

EventDescriptor::EventDescriptor() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!descriptor_.is_open()) fail_runtime("no event descriptor: {}", std::strerror(errno));
}

void EventDescriptor::set() const {
  const std::uint64_t one = 1;
  // It fails only where the counter is full, and then it is set.
  [[maybe_unused]] const auto written = ::write(descriptor_.get(), &one, sizeof one);
}

bool EventDescriptor::take() const {
  std::uint64_t times = 0;
  return ::read(descriptor_.get(), &times, sizeof times) == static_cast<::ssize_t>(sizeof times);
}

}  // namespace trifold
