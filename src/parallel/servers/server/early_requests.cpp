#include "parallel/servers/server/early_requests.h"

#include <utility>

namespace trifold {
namespace {

constexpr std::size_t kMostRequests = 4096;

}  // namespace

bool EarlyRequests::add(const Received& request, std::int64_t epoch) {
  const std::size_t bytes = request.message.payload.size();
  if (waiting_.size() >= kMostRequests || bytes_ + bytes > room_bytes_) return false;
  bytes_ += bytes;
  waiting_.push_back({.request = request, .epoch = epoch});
  return true;
}

std::vector<EarlyRequest> EarlyRequests::take_all() {
  bytes_ = 0;
  return std::exchange(waiting_, {});
}

}  // namespace trifold
