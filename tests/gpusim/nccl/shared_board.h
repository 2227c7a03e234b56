// Where the ranks of a communicator meet, threads and processes alike: one sparse file in shared memory, named after
// the communicator and unlinked as soon as all have it open, so that nothing stays behind however a process ends. A
// rank pins up what it brings to an operation; the others read it and say when they have.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace gpusim {

inline constexpr int kMaxRanks = 64;
inline constexpr int kSlots = 64;           // that a rank can have pinned up at once
inline constexpr int kCollectiveSlots = 8;  // the first ones: collectives follow each other, p2p messages need not

enum class NoteKind : std::uint32_t { collective, send, receive };

// What a rank asks for, as the others compare it.
struct Signature {
  std::uint32_t function = 0;
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  std::int32_t op = 0;
  std::int32_t root = 0;

  bool operator==(const Signature&) const = default;
};

struct Note {
  NoteKind kind = NoteKind::collective;
  std::int32_t peer = -1;    // of a send or receive
  std::uint64_t number = 0;  // of the rank's collectives, or of its messages to (from) that peer
  Signature signature = {};
  std::uint64_t bytes = 0;
  std::uint32_t spoilt = 0;  // its data could not be read, which was reported
};

struct BoardSlot {
  std::atomic<std::uint32_t> pinned;
  std::atomic<std::uint32_t> readers_left;
  Note note;
};

enum class Presence : std::uint32_t { absent, here, left, aborted };

struct SplitEntry {
  std::atomic<std::uint32_t> number;  // of the split it is for, from 1
  std::int32_t color;
  std::int32_t key;
};

struct BoardRank {
  std::atomic<Presence> presence;
  pid_t process;
  std::int32_t device;
  char gpu[128];         // which piece of hardware it would be: no two ranks may share one
  SplitEntry splits[2];  // the last two
  BoardSlot slots[kSlots];
};

struct BoardHeader {
  std::atomic<std::uint32_t> ranks;    // 0: nobody has come yet
  std::atomic<std::uint32_t> changes;  // waited on
  BoardRank rank[kMaxRanks];
};

class SharedBoard {
 public:
  SharedBoard(std::string name, int ranks);  // fatal when there is no shared memory
  ~SharedBoard();
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  BoardHeader& header() const { return *header_; }
  BoardRank& rank(int number) const { return header_->rank[number]; }
  void unlink() const;

  // Null when no slot is free (the others have not read the last ones yet).
  BoardSlot* free_slot(int rank, const Note& note) const;
  std::byte* data(int rank, const BoardSlot& slot) const;
  void reserve(int rank, const BoardSlot& slot, std::size_t bytes) const;
  void pin(BoardSlot& slot, const Note& note, int readers) const;
  const BoardSlot* find(int rank, const Note& like) const;  // same kind, peer and number; null: not pinned up
  void done_reading(int rank, const Note& like) const;      // the last reader takes it down

  void announce() const;  // something has changed
  // Returns when something has changed since `seen`, or after the time.
  std::uint32_t wait_for_change(std::uint32_t seen, std::chrono::milliseconds longest) const;

 private:
  std::string name_;
  int file_ = -1;
  std::size_t bytes_ = 0;
  BoardHeader* header_ = nullptr;
};

}  // namespace gpusim
