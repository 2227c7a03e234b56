// The processes of one job, as one of them sees the others: decisions that all must take alike, the communicators of
// its ranks, and a common end.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "parallel/processes/launch.h"
#include "parallel/rank_groups.h"

namespace trifold {

#ifdef NDEBUG
inline constexpr bool kChecksCalls = false;
#else
inline constexpr bool kChecksCalls = true;
#endif

class World {
 public:
  // Finds the other processes; every one of them does this at the same time. check_calls: that ranks call the same
  // collectives in the same order, at the price of one more exchange for each.
  explicit World(const Launch& launch, bool check_calls = kChecksCalls);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;                           // of this process
  int size() const;                           // processes
  bool first() const { return rank() == 0; }  // the process that writes and speaks
  int processes_here() const;                 // on this machine
  int rank_here() const;                      // among them; every process asks at the same time
  const std::string& starter() const;         // "mpirun"

  Communicator& everyone() const;  // processes, one member each
  // The ranks of this process, which are equally many in each; throws where the mesh's ranks do not divide. Every
  // process calls it.
  std::vector<std::unique_ptr<RankGroups>> make_ranks(const Mesh& mesh) const;

  // Every process's value, in their order.
  template <class T>
  std::vector<T> gather(const T& mine) const {
    return gather_all<T>({&mine, 1});
  }
  // Every process's values, which are equally many: those of process 0 first.
  template <class T>
  std::vector<T> gather_all(std::span<const T> mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(mine.size() * static_cast<std::size_t>(size()));
    everyone().wait(everyone().all_gather(std::as_bytes(mine), std::as_writable_bytes(std::span(all))));
    return all;
  }
  // Process 0's.
  template <class T>
  T from_first(T value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    everyone().wait(everyone().broadcast(std::as_writable_bytes(std::span(&value, 1)), 0));
    return value;
  }
  std::string from_first(std::string text) const;
  std::vector<std::string> gather_texts(const std::string& mine) const;  // of every process, in their order

  void at_step(std::int64_t step);  // updates done: what is said of a rank that is lost

  // Runs this process's part of the job. If it fails in one process it fails in all: the user is told once, and what is
  // thrown here then has no words.
  void run(const std::function<void()>& job);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Null: this process is alone.
std::unique_ptr<World> join_world();

}  // namespace trifold
