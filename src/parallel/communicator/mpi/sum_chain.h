// A sum over ranks that lie several in a process, in the order of ranks: the first process adds up its ranks' terms and
// sends the sum to the next, which adds its own one after the other, and so on; the last one has the sum of all and
// sends it back. Floating-point sums depend on their order, and this one is that of ranks in one process, whatever the
// number of processes. It goes piece by piece, so all processes work at once. Between neighbours S bytes travel each
// way: as many in all as in a ring of sums that each process makes of its own ranks first, 2 (P - 1) S for P processes.
// A sum of which every rank gets its part only costs (P - 1) (1 + 1 / P) S, a P-th more than that ring.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "parallel/communicator/mpi/mpi_engine.h"

namespace trifold {

class SumChain {
 public:
  // A run of the numbers. Its sum goes to all processes, or to one.
  struct Piece {
    std::size_t begin = 0;
    std::size_t count = 0;
    int owner = -1;                   // the process that gets the sum; -1: all
    std::vector<float*> places = {};  // in which it is wanted here: ranks' memory
  };
  struct Args {
    MPI_Comm processes = MPI_COMM_NULL;    // in the order of their ranks
    int tag = 0;                           // of this chain's messages
    std::vector<const float*> terms = {};  // of the ranks here; a place may lie on the terms of its own piece
    std::vector<Piece> pieces = {};
    std::vector<float> room = {};  // memory of an earlier one
  };

  explicit SumChain(Args args);
  ~SumChain() = default;
  SumChain(const SumChain&) = delete;
  SumChain& operator=(const SumChain&) = delete;

  // These are called with the engine's lock.
  void advance();
  std::optional<MpiTask> claim_task();
  bool done();
  std::vector<float> take_room() { return std::move(sums_); }

 private:
  bool first() const { return process_ == 0; }
  bool last() const { return process_ == processes_ - 1; }
  float* sum_of(const Piece& piece) { return sums_.data() + piece.begin; }
  void add(const Piece& piece);
  void pass_on(std::size_t piece);
  void spread(std::size_t piece) const;
  void send(const Piece& piece, const float* from, int to);
  void receive(const Piece& piece, float* to, int from, MPI_Request& request);

  // How far pieces have come. Their messages are told apart by their order alone.
  struct State {
    MPI_Request before = MPI_REQUEST_NULL;  // the sum of the processes before this one
    MPI_Request after = MPI_REQUEST_NULL;   // the sum of all
    bool added = false;
  };

  Args args_;
  int process_ = 0;
  int processes_ = 1;
  std::vector<float> sums_;  // of the ranks up to this process's last
  std::vector<State> states_;
  std::size_t arrived_ = 0;  // pieces, the first ones: whose sum of the processes before is there
  std::size_t claimed_ = 0;  // whose terms somebody adds, or has added
  std::size_t passed_ = 0;   // whose sum was passed on
  std::size_t back_ = 0;     // whose whole sum is there
  std::size_t spread_claimed_ = 0;
  std::size_t spread_done_ = 0;
  std::deque<MPI_Request> sends_;
};

}  // namespace trifold
