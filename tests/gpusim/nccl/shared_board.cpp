#include "nccl/shared_board.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/report.h"

namespace gpusim {
namespace {

constexpr std::size_t kPage = 4096;
// Of address space; pages come when they are written. Programs that make many communicators have room for all of them.
constexpr std::size_t kSlotBytes = std::size_t{64} << 20;

std::size_t header_bytes() {
  return (sizeof(BoardHeader) + kPage - 1) / kPage * kPage;
}

std::size_t offset_of(int rank, int slot) {
  return header_bytes() + (static_cast<std::size_t>(rank) * kSlots + static_cast<std::size_t>(slot)) * kSlotBytes;
}

[[noreturn]] void give_up(const std::string& what) {
  fatal(Finding::unsupported, "NCCL: " + what + ": " + std::strerror(errno));
}

bool matches(const Note& note, const Note& like) {
  return note.kind == like.kind && note.peer == like.peer && note.number == like.number;
}

}  // namespace

SharedBoard::SharedBoard(std::string name, int ranks) : name_("/" + std::move(name)) {
  bytes_ = offset_of(ranks, 0);
  file_ = shm_open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) give_up("no shared memory " + name_);
  if (ftruncate(file_, static_cast<off_t>(bytes_)) != 0) give_up("cannot size the shared memory " + name_);
  void* view = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (view == MAP_FAILED) give_up("cannot map the shared memory " + name_);
  header_ = static_cast<BoardHeader*>(view);  // zeros, which are valid: nobody is here, nothing is pinned up
}

SharedBoard::~SharedBoard() {
  munmap(header_, bytes_);
  close(file_);
}

void SharedBoard::unlink() const {
  shm_unlink(name_.c_str());
}

BoardSlot* SharedBoard::free_slot(int number, const Note& note) const {
  auto& slots = rank(number).slots;
  if (note.kind == NoteKind::collective) {
    auto& slot = slots[note.number % kCollectiveSlots];
    return slot.pinned.load() == 0 ? &slot : nullptr;
  }
  for (int i = kCollectiveSlots; i < kSlots; ++i) {
    if (slots[i].pinned.load() == 0) return &slots[i];
  }
  return nullptr;
}

std::byte* SharedBoard::data(int number, const BoardSlot& slot) const {
  return reinterpret_cast<std::byte*>(header_) + offset_of(number, static_cast<int>(&slot - rank(number).slots));
}

void SharedBoard::reserve(int number, const BoardSlot& slot, std::size_t bytes) const {
  if (bytes == 0) return;
  if (bytes > kSlotBytes) fatal(Finding::unsupported, "NCCL: more than 64 MiB in one operation");
  const std::size_t offset = offset_of(number, static_cast<int>(&slot - rank(number).slots));
  if (posix_fallocate(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    fatal(Finding::unsupported, "NCCL: no room in shared memory (/dev/shm) for " + std::to_string(bytes) + " bytes");
  }
}

void SharedBoard::pin(BoardSlot& slot, const Note& note, int readers) const {
  slot.note = note;
  slot.readers_left.store(static_cast<std::uint32_t>(readers));
  slot.pinned.store(1);
  announce();
}

const BoardSlot* SharedBoard::find(int number, const Note& like) const {
  auto& slots = rank(number).slots;
  if (like.kind == NoteKind::collective) {
    const auto& slot = slots[like.number % kCollectiveSlots];
    return slot.pinned.load() != 0 && matches(slot.note, like) ? &slot : nullptr;
  }
  for (int i = kCollectiveSlots; i < kSlots; ++i) {
    if (slots[i].pinned.load() != 0 && matches(slots[i].note, like)) return &slots[i];
  }
  return nullptr;
}

void SharedBoard::done_reading(int number, const Note& like) const {
  auto* slot = const_cast<BoardSlot*>(find(number, like));
  if (!slot || slot->readers_left.fetch_sub(1) != 1) return;
  if (slot->note.bytes > 0) {
    const std::size_t whole_pages = (slot->note.bytes + kPage - 1) / kPage * kPage;
    madvise(data(number, *slot), whole_pages, MADV_REMOVE);
  }
  slot->pinned.store(0);
  announce();
}

void SharedBoard::announce() const {
  header_->changes.fetch_add(1);
  syscall(SYS_futex, &header_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t SharedBoard::wait_for_change(std::uint32_t seen, std::chrono::milliseconds longest) const {
  const timespec limit{.tv_sec = longest.count() / 1000, .tv_nsec = longest.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &header_->changes, FUTEX_WAIT, seen, &limit, nullptr, 0);
  return header_->changes.load();
}

}  // namespace gpusim
