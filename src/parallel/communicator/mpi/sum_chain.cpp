#include "parallel/communicator/mpi/sum_chain.h"

#include <algorithm>

namespace trifold {

SumChain::SumChain(Args args) : args_(std::move(args)), sums_(std::move(args_.room)), states_(args_.pieces.size()) {
  MPI_Comm_rank(args_.processes, &process_);
  MPI_Comm_size(args_.processes, &processes_);
  std::size_t count = 0;
  for (const Piece& piece : args_.pieces) count = std::max(count, piece.begin + piece.count);
  sums_.resize(count);
  for (std::size_t i = 0; i < states_.size() && !first(); ++i)
    receive(args_.pieces[i], sum_of(args_.pieces[i]), process_ - 1, states_[i].before);
}

void SumChain::send(const Piece& piece, const float* from, int to) {
  TRIFOLD_MPI_CALL(MPI_Isend, from, mpi_count(piece.count), MPI_FLOAT, to, args_.tag, args_.processes,
                   &sends_.emplace_back(MPI_REQUEST_NULL));
}

void SumChain::receive(const Piece& piece, float* to, int from, MPI_Request& request) {
  TRIFOLD_MPI_CALL(MPI_Irecv, to, mpi_count(piece.count), MPI_FLOAT, from, args_.tag, args_.processes, &request);
}

void SumChain::advance() {
  const std::size_t pieces = states_.size();
  while (arrived_ < pieces && has_arrived(states_[arrived_].before)) ++arrived_;
  while (passed_ < pieces && states_[passed_].added) pass_on(passed_++);
  while (back_ < passed_ && has_arrived(states_[back_].after)) {
    const Piece& piece = args_.pieces[back_++];
    if (piece.owner < 0 && !first() && !last()) send(piece, piece.places.front(), process_ - 1);
  }
  while (!sends_.empty() && has_arrived(sends_.front())) sends_.pop_front();
}

// The terms of a piece were read: its place in a rank's memory is free for the sum.
void SumChain::pass_on(std::size_t index) {
  const Piece& piece = args_.pieces[index];
  const bool is_mine = piece.owner < 0 || piece.owner == process_;
  if (!last()) {
    send(piece, sum_of(piece), process_ + 1);
    if (is_mine)
      receive(piece, piece.places.front(), piece.owner < 0 ? process_ + 1 : processes_ - 1, states_[index].after);
  } else if (piece.owner < 0) {
    send(piece, sum_of(piece), process_ - 1);
  } else if (!is_mine) {
    send(piece, sum_of(piece), piece.owner);
  }
}

std::optional<MpiTask> SumChain::claim_task() {
  if (claimed_ < arrived_) {
    const std::size_t piece = claimed_++;
    return MpiTask{.run = [this, piece] { add(args_.pieces[piece]); },
                   .done = [this, piece] { states_[piece].added = true; }};
  }
  if (spread_claimed_ < back_) {
    const std::size_t piece = spread_claimed_++;
    return MpiTask{.run = [this, piece] { spread(piece); }, .done = [this] { ++spread_done_; }};
  }
  return std::nullopt;
}

void SumChain::add(const Piece& piece) {
  float* sum = sum_of(piece);
  if (first()) std::copy_n(args_.terms.front() + piece.begin, piece.count, sum);
  for (std::size_t rank = first() ? 1 : 0; rank < args_.terms.size(); ++rank) {
    const float* term = args_.terms[rank] + piece.begin;
    for (std::size_t i = 0; i < piece.count; ++i) sum[i] += term[i];
  }
}

void SumChain::spread(std::size_t index) const {
  const Piece& piece = args_.pieces[index];
  if (piece.places.empty()) return;
  const float* sum = last() ? sums_.data() + piece.begin : piece.places.front();
  for (float* place : piece.places)
    if (place != sum) std::copy_n(sum, piece.count, place);
}

bool SumChain::done() {
  return spread_done_ == states_.size() && sends_.empty();
}

}  // namespace trifold
