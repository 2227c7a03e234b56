// Copies that the ranks of a process which wait share among themselves, piece by piece.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "parallel/communicator/mpi/mpi_engine.h"

namespace trifold {

class CopyList {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // that one rank copies at a time

  void add(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to == from) return;
    for (std::size_t begin = 0; begin < bytes; begin += kPieceBytes)
      pieces_.push_back({to + begin, from + begin, std::min(kPieceBytes, bytes - begin)});
  }

  // These are called with the engine's lock.
  std::optional<MpiTask> claim_task() {
    if (claimed_ == pieces_.size()) return std::nullopt;
    const Piece piece = pieces_[claimed_++];
    return MpiTask{.run = [piece] { std::memcpy(piece.to, piece.from, piece.bytes); }, .done = [this] { ++done_; }};
  }
  bool done() const { return done_ == pieces_.size(); }

 private:
  struct Piece {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  std::vector<Piece> pieces_;
  std::size_t claimed_ = 0;
  std::size_t done_ = 0;
};

}  // namespace trifold
