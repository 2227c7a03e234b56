#include "parallel/servers/wire/byte_pool.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace trifold {

struct BytePool::Shelf {
  explicit Shelf(std::size_t bytes) : most(bytes) {}

  const std::size_t most;
  std::mutex mutex = {};
  std::size_t kept = 0;                           // bytes, of `free`
  std::vector<std::vector<std::byte>> free = {};  // the last one that came back is the first to go: caches may have it

  std::vector<std::byte> take(std::size_t room) {
    const std::lock_guard lock(mutex);
    const auto fits = std::find_if(free.rbegin(), free.rend(), [&](const auto& bytes) {
      return bytes.capacity() >= room && bytes.capacity() / 4 <= room;  // a short message is not worth a long one's
    });
    if (fits == free.rend()) return {};
    std::vector<std::byte> found = std::move(*fits);
    free.erase(std::next(fits).base());
    kept -= found.capacity();
    return found;
  }

  void put(std::vector<std::byte> bytes) {
    bytes.clear();
    const std::lock_guard lock(mutex);
    if (bytes.capacity() > most) return;
    kept += bytes.capacity();
    free.push_back(std::move(bytes));
    while (kept > most) {
      kept -= free.front().capacity();
      free.erase(free.begin());
    }
  }
};

BytePool::BytePool(std::size_t most) : shelf_(std::make_shared<Shelf>(most)) {}

std::vector<std::byte> BytePool::take(std::size_t room) const {
  std::vector<std::byte> bytes = shelf_->take(room);
  bytes.reserve(room);
  return bytes;
}

Payload BytePool::own(std::vector<std::byte> bytes) const {
  const std::shared_ptr<std::vector<std::byte>> held(new std::vector<std::byte>(std::move(bytes)),
                                                     [shelf = shelf_](std::vector<std::byte>* back) {
                                                       shelf->put(std::move(*back));
                                                       delete back;
                                                     });
  return {held, *held};
}

}  // namespace trifold
