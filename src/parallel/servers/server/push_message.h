// A worker's push as a server reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/servers/server/served_slice.h"
#include "parallel/servers/server/state_message.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

struct PushRequest {
  std::uint64_t id = 0;
  std::vector<int> slices = {};
  std::vector<SlicePush> pushes = {};  // by slice
};

// An Error or a JSON exception says what is wrong: the message may come from anybody.
PushRequest push_from(const Message& message, const ServedLayout& layout, int shards);

}  // namespace trifold
