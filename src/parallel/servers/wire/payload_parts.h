// A payload that is made of several parts, whose bytes the message's field "sizes" gives.
#pragma once

#include <cstddef>
#include <vector>

#include "parallel/servers/wire/message.h"

namespace trifold {

// The parts, which share the payload's memory. An Error where there are not `count` of them, or where they are not the
// whole payload: the message may come from anybody.
std::vector<Payload> payload_parts(const Message& message, std::size_t count);

}  // namespace trifold
