#include "parallel/communicator/mpi/mpi_engine.h"

#include <algorithm>
#include <climits>
#include <thread>

#include "core/error.h"

namespace trifold {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail_runtime("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

int mpi_count(std::size_t count) {
  TRIFOLD_CHECK(count <= INT_MAX, "{} elements are too many for one MPI call", count);
  return static_cast<int>(count);
}

MPI_Comm duplicate(MPI_Comm communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  TRIFOLD_MPI_CALL(MPI_Comm_dup, communicator, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

bool has_arrived(MPI_Request& request) {
  int done = 0;
  TRIFOLD_MPI_CALL(MPI_Test, &request, &done, MPI_STATUS_IGNORE);
  return done != 0;
}

std::string to_string(const MpiCall& call) {
  constexpr std::array<const char*, 8> kNames = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                                 "all_to_all", "barrier",        "send",       "receive"};
  std::string text = kNames[static_cast<std::size_t>(call.kind)];
  if (call.bytes > 0) text += fmt::format(" of {} bytes", call.bytes);
  if (call.kind == MpiKind::send) text += fmt::format(" to rank {}", call.root);
  if (call.kind == MpiKind::broadcast || call.kind == MpiKind::receive) text += fmt::format(" from rank {}", call.root);
  return text;
}

void add_up(const float* terms, std::size_t ranks, std::size_t count, float* sum) {
  std::copy_n(terms, count, sum);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const float* term = terms + rank * count;
    for (std::size_t i = 0; i < count; ++i) sum[i] += term[i];
  }
}

void MpiEngine::add(MpiWork* work) {
  const std::lock_guard lock(mutex);
  works_.push_back(work);
}

void MpiEngine::remove(MpiWork* work) {
  const std::lock_guard lock(mutex);
  std::erase(works_, work);
}

// A short look is cheaper than to sleep; ranks that share a core must let the others work.
void MpiEngine::wait(const Wait& given) {
  constexpr auto kPatienceToYield = std::chrono::milliseconds(2);
  RankWait wait(board, given.rank);
  for (bool stops = false;;) {
    bool others_work = false;
    {
      const std::lock_guard lock(mutex);
      others_work = tasks_running_ > 0;
      // When the job has ended other ranks may have let go of memory that MPI would still write to, or be at work on
      // this rank's.
      const bool ended = board.ended();
      if (!ended) {
        for (MpiWork* work : works_) work->advance();
        if (given.finished()) return;
        if (!wait.described() && wait.is_long()) wait.describe(given.describe());
      }
      stops = ended && !others_work;
    }
    if (stops) board.stop_if_ended();
    if (help()) continue;
    wait.report_if_stalled();
    if (others_work || wait.waited() < kPatienceToYield)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

bool MpiEngine::help() {
  std::optional<MpiTask> task;
  {
    const std::lock_guard lock(mutex);
    if (board.ended()) return false;
    for (std::size_t i = 0; i < works_.size() && !task; ++i) task = works_[i]->claim_task();
    if (!task) return false;
    ++tasks_running_;
  }
  task->run();
  const std::lock_guard lock(mutex);
  --tasks_running_;
  task->done();
  return true;
}

std::map<int, RankStatus> MpiEngine::statuses() const {
  const std::lock_guard lock(mutex);
  std::map<int, RankStatus> by_rank;
  for (const MpiWork* work : works_) work->add_calls(by_rank);
  for (auto& [rank, waiting] : board.waiting()) by_rank[rank].waiting = waiting;
  return by_rank;
}

}  // namespace trifold
