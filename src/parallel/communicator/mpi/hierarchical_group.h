// The ranks of a process in a group that lies in several processes, and the group's collectives under way: each waits
// for all ranks here, packs what they give, is exchanged once for the process, and unpacked. Included only by files
// that know MPI's header.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/communicator/copy_list.h"
#include "parallel/communicator/mpi/mpi.h"
#include "parallel/communicator/mpi/mpi_engine.h"
#include "parallel/communicator/mpi/sum_chain.h"

namespace trifold {

// Where a rank's part of a collective lies.
struct HierarchicalMember {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};

// A run of equal parts as one element of MPI's, whose counts are int.
class PartType {
 public:
  explicit PartType(std::size_t bytes) {
    TRIFOLD_MPI_CALL(MPI_Type_contiguous, mpi_count(bytes), MPI_BYTE, &type_);
    TRIFOLD_MPI_CALL(MPI_Type_commit, &type_);
  }
  ~PartType() { MPI_Type_free(&type_); }
  PartType(const PartType&) = delete;
  PartType& operator=(const PartType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// A collective on its way through its stages. It begins when all ranks of this process have announced it.
struct HierarchicalOperation {
  enum class Stage { announced, check, checked, pack, packed, exchange, unpack, done };

  std::int64_t number = 0;
  MpiCall call = {};
  int first_member = -1;  // that announced it
  std::vector<HierarchicalMember> members = {};
  std::size_t arrived = 0;
  std::size_t left = 0;  // ranks that need it no more
  Stage stage = Stage::announced;
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<MpiCall> calls = {};       // of all processes
  std::vector<std::byte> sent = {};      // what this process gives the others, where it lies nowhere in one piece
  std::vector<std::byte> received = {};  // what came from them, likewise
  std::unique_ptr<PartType> part = {};   // what is exchanged; Open MPI needs it to the end
  CopyList packing = {};
  CopyList unpacking = {};
  std::unique_ptr<SumChain> chain = {};

  std::size_t bytes() const { return static_cast<std::size_t>(call.bytes); }
};

class HierarchicalGroup final : public MpiWork {
 public:
  using Stage = HierarchicalOperation::Stage;

  HierarchicalGroup(std::shared_ptr<MpiEngine> engine, MPI_Comm processes, Mpi::GroupArgs args);
  HierarchicalGroup(const HierarchicalGroup&) = delete;
  HierarchicalGroup& operator=(const HierarchicalGroup&) = delete;
  // MPI's communicators stay until MPI ends: to free one is a collective, which a failing rank would wait in.
  ~HierarchicalGroup() override { engine_->remove(this); }

  MpiEngine& engine() const { return *engine_; }
  int size() const { return static_cast<int>(args_.ranks.size()); }
  int first_here() const { return firsts_[static_cast<std::size_t>(process_)]; }
  int members_here() const { return counts_[static_cast<std::size_t>(process_)]; }
  bool is_here(int member) const { return process_of_[static_cast<std::size_t>(member)] == process_; }
  int name(int member) const { return args_.ranks[static_cast<std::size_t>(member)]; }  // as messages say

  // --- called by the ranks here; `member` is one of the group

  Ticket announce(int member, const MpiCall& call, HierarchicalMember memory);
  Ticket begin_message(int member, const MpiCall& call, int tag, void* memory);
  bool finish(const Ticket& ticket);  // these two with the lock
  RankStatus::Waiting describe(const Ticket& ticket) const;

  // --- called by whoever waits, with the lock

  void advance() override;
  std::optional<MpiTask> claim_task() override;
  void add_calls(std::map<int, RankStatus>& by_rank) const override {
    for (int i = 0; i < members_here(); ++i)
      by_rank[name(first_here() + i)].calls[args_.name] = called_[static_cast<std::size_t>(i)];
  }

 private:
  bool is_chain(const MpiCall& call) const {
    return call.kind == MpiKind::reduce_scatter ||
           (call.kind == MpiKind::all_reduce && call.bytes > std::int64_t{kSmallSum});
  }
  void advance(HierarchicalOperation& operation, bool may_exchange);
  void begin_check(HierarchicalOperation& operation);
  void finish_check(const HierarchicalOperation& operation) const;
  void begin_packing(HierarchicalOperation& operation) const;
  void begin_exchange(HierarchicalOperation& operation);
  void begin_chain(HierarchicalOperation& operation);
  void begin_unpacking(HierarchicalOperation& operation) const;
  std::byte* shared_memory(const HierarchicalOperation& operation) const;

  std::shared_ptr<MpiEngine> engine_;
  Mpi::GroupArgs args_;
  MPI_Comm exchanges_, chains_;
  MPI_Comm checks_ = MPI_COMM_NULL;
  int process_ = 0;                              // among those of the group
  std::vector<int> process_of_;                  // of each member
  std::vector<int> counts_;                      // members of each process,
  std::vector<int> firsts_;                      // and their first
  std::vector<int> pair_counts_;                 // pairs of a member here and one of each process,
  std::vector<int> pair_offsets_;                // and those of the processes before
  int most_ = 1;                                 // members of a process
  std::vector<std::int64_t> called_;             // collectives, by member here
  std::list<HierarchicalOperation> operations_;  // as announced
  std::int64_t messages_begun_ = 0;
  std::list<MpiMessage> messages_;
  std::vector<std::vector<float>> spare_room_;
};

}  // namespace trifold
