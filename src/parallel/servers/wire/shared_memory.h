// Memory that a process of the same user, on the same machine, may read: the sender of a payload puts it there, and
// says where it is. It lies in blocks of one length in a file without a name (memfd_create(2)), whose length nobody can
// change; the receiver maps it, and reads the payload in place. How many have been told of a block and not yet let go
// is counted in the memory itself: a block is written again when nobody reads it, so whoever dies with it in hand costs
// the sender that block, and nothing is ever read that has changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/file_descriptor.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

// Room for the longest pushes and pull answers: 256 kB, and the slice that was one too many.
inline constexpr std::size_t kSharedBlockBytes = (std::size_t{1280} << 10) + 4096;

// What is said of such memory to who may map it.
struct SharedMemoryOffer {
  std::uint64_t id = 0;  // a random number that is in the memory, too
  std::int64_t process = 0;
  int descriptor = -1;  // of that process
};

// The sender's side.
class SharedBlocks {
 public:
  // Null: this system has no such memory.
  static std::unique_ptr<SharedBlocks> make(std::size_t blocks);
  ~SharedBlocks();
  SharedBlocks(const SharedBlocks&) = delete;
  SharedBlocks& operator=(const SharedBlocks&) = delete;

  SharedMemoryOffer offer() const;
  // A block that has these bytes, for one reader more; they are copied once, however many they go to. Null: none is
  // free, or the payload is longer than a block.
  std::optional<std::uint32_t> lend(const Payload& payload);
  // The reader was not told of it.
  void take_back(std::uint32_t block);

 private:
  struct Lent {
    std::uint32_t block = 0;
    std::weak_ptr<const void> owner;  // of the payload it is a copy of
    const std::byte* bytes = nullptr;
    std::size_t size = 0;
  };

  SharedBlocks() = default;
  std::optional<std::uint32_t> free_block();
  std::atomic<std::uint32_t>& readers(std::uint32_t block) const;

  FileDescriptor file_;
  std::uint64_t id_ = 0;
  std::byte* memory_ = nullptr;
  std::size_t blocks_ = 0;
  std::uint32_t used_ = 0;           // the first so many have been written
  std::vector<std::uint32_t> free_;  // of those; caches may have the last one
  std::vector<Lent> lent_;
};

// The receiver's.
class SharedView : public std::enable_shared_from_this<SharedView> {
 public:
  // Null: it is not there, not of this user, or not what it should be; of more than `most` blocks, too.
  static std::shared_ptr<SharedView> open(const SharedMemoryOffer& offer, std::size_t most);
  ~SharedView();
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;

  std::uint64_t id() const { return id_; }
  // The process that made it has ended.
  bool abandoned() const;
  // The block is let go of with the last who holds the payload, on whatever thread. Null: there is no such block.
  std::optional<Payload> payload(std::uint32_t block, std::size_t bytes);

 private:
  SharedView() = default;

  std::uint64_t id_ = 0;
  FileDescriptor process_;       // pidfd_open(2)
  std::byte* counts_ = nullptr;  // may be written, the rest not
  std::byte* memory_ = nullptr;
  std::size_t blocks_ = 0;
};

}  // namespace trifold
