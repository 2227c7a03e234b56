// Requests that a server cannot take yet: it has not seen the view that they go by, or their slices are on their way to
// it. How many wait is bounded, in number and in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct EarlyRequest {
  Received request;
  std::int64_t epoch = 0;  // of the view that it goes by
};

class EarlyRequests {
 public:
  // room_bytes: payloads that may wait together.
  explicit EarlyRequests(std::size_t room_bytes) : room_bytes_(room_bytes) {}

  // False: there is no room, so its sender has to ask again.
  bool add(const Received& request, std::int64_t epoch);
  // All that wait, in the order in which they came.
  std::vector<EarlyRequest> take_all();

 private:
  std::size_t room_bytes_;
  std::size_t bytes_ = 0;
  std::vector<EarlyRequest> waiting_;
};

}  // namespace trifold
