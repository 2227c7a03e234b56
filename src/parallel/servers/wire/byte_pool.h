// Memory of payloads, used again when ZeroMQ and everybody else is done with it: fresh memory costs the kernel more
// than writing to it does.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "parallel/servers/wire/message.h"

namespace trifold {

class BytePool {
 public:
  // Keeps at most so many bytes that nobody uses.
  explicit BytePool(std::size_t most = std::size_t{64} << 20);

  // From any thread. Empty, with room for so many bytes.
  std::vector<std::byte> take(std::size_t room) const;
  // The bytes come back here once the last who holds the payload lets go, on whatever thread, whether the pool still
  // lives or not.
  Payload own(std::vector<std::byte> bytes) const;

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace trifold
