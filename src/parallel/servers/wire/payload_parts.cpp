#include "parallel/servers/wire/payload_parts.h"

#include <cstdint>

#include "core/error.h"

namespace trifold {

std::vector<Payload> payload_parts(const Message& message, std::size_t count) {
  const auto sizes = message.fields.at("sizes").get<std::vector<std::uint64_t>>();
  if (sizes.size() != count) fail_runtime("{} sizes of {} slices", sizes.size(), count);
  std::vector<Payload> parts;
  std::size_t at = 0;
  for (const std::uint64_t size : sizes) {
    if (size > message.payload.size() - at) fail_runtime("{} bytes are too few", message.payload.size());
    parts.push_back(message.payload.part(at, size));
    at += size;
  }
  if (at != message.payload.size()) fail_runtime("{} bytes are too many", message.payload.size());
  return parts;
}

}  // namespace trifold
