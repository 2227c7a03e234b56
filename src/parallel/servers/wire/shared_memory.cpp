#include "parallel/servers/wire/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trifold {
namespace {

constexpr std::uint64_t kMemoryMagic = 0x6d656d2053504654;  // "TFPS mem"
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// The memory begins with its magic and id; then come the readers of each block, far enough apart that those who count
// do not disturb each other, and then the blocks.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kIdAt = sizeof kMemoryMagic;
constexpr std::size_t kApart = 64;
constexpr std::size_t kFirstCount = kApart;
static_assert(kSharedBlockBytes % kPage == 0);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

std::size_t bytes_of_counts(std::size_t blocks) {
  return (kFirstCount + blocks * kApart + kPage - 1) / kPage * kPage;
}

std::size_t bytes_of(std::size_t blocks) {
  return bytes_of_counts(blocks) + blocks * kSharedBlockBytes;
}

std::atomic<std::uint32_t>& count_of(std::byte* memory, std::uint32_t block) {
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory + kFirstCount + block * kApart);
}

std::byte* map(int descriptor, std::size_t bytes, int may) {
  void* memory = ::mmap(nullptr, bytes, may, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void unmap(std::byte* memory, std::size_t bytes) {
  if (memory != nullptr) ::munmap(memory, bytes);
}

// Of a file that another process has open; whatever it is, nothing happens to it by this.
FileDescriptor look_at(const SharedMemoryOffer& offer) {
  return FileDescriptor(
      ::open(fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor).c_str(), O_PATH | O_CLOEXEC));
}

bool is_sealed(int descriptor) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals;
}

bool is_a_file_of_this_user(const struct ::stat& file) {
  return S_ISREG(file.st_mode) && file.st_uid == ::geteuid() && file.st_nlink == 0;
}

}  // namespace

// --- the sender's side

std::unique_ptr<SharedBlocks> SharedBlocks::make(std::size_t blocks) {
  std::unique_ptr<SharedBlocks> made(new SharedBlocks);
  made->blocks_ = blocks;
  made->file_ = FileDescriptor(::memfd_create("trifold", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = made->file_.get();
  if (file < 0 || ::ftruncate(file, static_cast<::off_t>(bytes_of(blocks))) != 0 ||
      ::fcntl(file, F_ADD_SEALS, kSeals) != 0)
    return nullptr;
  made->memory_ = map(file, bytes_of(blocks), PROT_READ | PROT_WRITE);
  if (made->memory_ == nullptr) return nullptr;
  std::random_device random;
  made->id_ = std::uint64_t{random()} << 32 | random();
  std::memcpy(made->memory_, &kMemoryMagic, sizeof kMemoryMagic);
  std::memcpy(made->memory_ + kIdAt, &made->id_, sizeof made->id_);
  return made;
}

SharedBlocks::~SharedBlocks() {
  unmap(memory_, bytes_of(blocks_));
}

SharedMemoryOffer SharedBlocks::offer() const {
  return {.id = id_, .process = ::getpid(), .descriptor = file_.get()};
}

std::atomic<std::uint32_t>& SharedBlocks::readers(std::uint32_t block) const {
  return count_of(memory_, block);
}

std::optional<std::uint32_t> SharedBlocks::lend(const Payload& payload) {
  const std::span<const std::byte> bytes = payload.bytes();
  if (bytes.size() > kSharedBlockBytes) return std::nullopt;
  const auto same = std::ranges::find_if(lent_, [&](const Lent& lent) {
    return lent.bytes == bytes.data() && lent.size == bytes.size() && !lent.owner.owner_before(payload.owner()) &&
           !payload.owner().owner_before(lent.owner);
  });
  if (same != lent_.end()) {
    readers(same->block).fetch_add(1, std::memory_order_relaxed);
    return same->block;
  }
  const std::optional<std::uint32_t> block = free_block();
  if (!block) return std::nullopt;
  std::memcpy(memory_ + bytes_of_counts(blocks_) + *block * kSharedBlockBytes, bytes.data(), bytes.size());
  readers(*block).store(1, std::memory_order_relaxed);
  lent_.push_back({.block = *block, .owner = payload.owner(), .bytes = bytes.data(), .size = bytes.size()});
  return block;
}

void SharedBlocks::take_back(std::uint32_t block) {
  readers(block).fetch_sub(1, std::memory_order_relaxed);
}

// Blocks that were used before come first: the fewer they are, the more of them caches have.
std::optional<std::uint32_t> SharedBlocks::free_block() {
  if (free_.empty())
    std::erase_if(lent_, [&](const Lent& lent) {
      if (readers(lent.block).load(std::memory_order_acquire) != 0) return false;
      free_.push_back(lent.block);
      return true;
    });
  if (free_.empty()) return used_ < blocks_ ? std::optional(used_++) : std::nullopt;
  const std::uint32_t block = free_.back();
  free_.pop_back();
  return block;
}

// --- the receiver's

std::shared_ptr<SharedView> SharedView::open(const SharedMemoryOffer& offer, std::size_t most) {
  if (offer.process <= 0 || offer.descriptor < 0) return nullptr;
  std::shared_ptr<SharedView> view(new SharedView);
  view->process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<::pid_t>(offer.process), 0)));
  if (!view->process_.is_open()) return nullptr;
  const FileDescriptor seen = look_at(offer);
  struct ::stat file = {};
  if (!seen.is_open() || ::fstat(seen.get(), &file) != 0 || !is_a_file_of_this_user(file)) return nullptr;
  const FileDescriptor opened(::open(fmt::format("/proc/self/fd/{}", seen.get()).c_str(), O_RDWR | O_CLOEXEC));
  // Only files of memfd_create have seals. Without them it could be cut off while it is read, which ends the reader.
  if (!opened.is_open() || !is_sealed(opened.get())) return nullptr;
  while (view->blocks_ < most && bytes_of(view->blocks_) < static_cast<std::size_t>(file.st_size)) ++view->blocks_;
  if (view->blocks_ == 0 || bytes_of(view->blocks_) != static_cast<std::size_t>(file.st_size)) return nullptr;

  view->counts_ = map(opened.get(), bytes_of_counts(view->blocks_), PROT_READ | PROT_WRITE);
  view->memory_ = map(opened.get(), bytes_of(view->blocks_), PROT_READ);
  if (view->counts_ == nullptr || view->memory_ == nullptr) return nullptr;
  std::memcpy(&view->id_, view->memory_ + kIdAt, sizeof view->id_);
  // Who knows the number made the memory, or was told of it: nobody can make this process map, and count in, what
  // belongs to a third one.
  if (std::memcmp(view->memory_, &kMemoryMagic, sizeof kMemoryMagic) != 0 || view->id_ != offer.id) return nullptr;
  return view;
}

SharedView::~SharedView() {
  unmap(counts_, bytes_of_counts(blocks_));
  unmap(memory_, bytes_of(blocks_));
}

bool SharedView::abandoned() const {
  ::pollfd ended = {process_.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

std::optional<Payload> SharedView::payload(std::uint32_t block, std::size_t bytes) {
  if (block >= blocks_ || bytes > kSharedBlockBytes) return std::nullopt;
  const std::byte* first = memory_ + bytes_of_counts(blocks_) + block * kSharedBlockBytes;
  const std::shared_ptr<const void> owner(first, [view = shared_from_this(), block](const void* /*bytes*/) {
    count_of(view->counts_, block).fetch_sub(1, std::memory_order_release);
  });
  return Payload(owner, {first, bytes});
}

}  // namespace trifold
