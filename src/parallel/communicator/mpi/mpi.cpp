#include "parallel/communicator/mpi/mpi.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "parallel/communicator/mpi/hierarchical_communicator.h"
#include "parallel/communicator/mpi/mpi_communicator.h"

namespace trifold {
namespace {

class MpiProcess final : public Mpi {
 public:
  MpiProcess() {
    int provided = MPI_THREAD_SINGLE;
    TRIFOLD_MPI_CALL(MPI_Init_thread, nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (provided < MPI_THREAD_SERIALIZED)
      fail_input("this MPI cannot be called from threads; install one that was built with them");
    look_around();
  }

  void join(Watch& watch, int rank, int size) override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int processes_here() const override { return processes_here_; }

  std::string from_first(const std::string& text) const override {
    std::uint64_t length = text.size();
    TRIFOLD_MPI_CALL(MPI_Bcast, &length, 1, MPI_UINT64_T, 0, world_);
    std::string common = text;
    common.resize(length);
    TRIFOLD_MPI_CALL(MPI_Bcast, common.data(), mpi_count(length), MPI_CHAR, 0, world_);
    return common;
  }

  WaitBoard& board() override { return engine_->board; }
  std::map<int, RankStatus> statuses() const override { return engine_->statuses(); }

  std::vector<std::unique_ptr<Communicator>> make_group(const GroupArgs& args) override {
    std::vector<int> processes = args.processes;
    processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
    TRIFOLD_CHECK(std::ranges::find(processes, rank()) != processes.end(), "process {} makes a group without itself",
                  rank());
    const MPI_Comm joined = join_processes(processes);
    if (processes.size() < args.ranks.size()) return make_hierarchical_group(engine_, joined, args);
    std::vector<std::unique_ptr<Communicator>> mine;
    mine.push_back(make_mpi_communicator(engine_, joined, args));
    return mine;
  }

  void finalize() override { MPI_Finalize(); }

 private:
  // Only those processes take part.
  MPI_Comm join_processes(const std::vector<int>& processes) const {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm joined = MPI_COMM_NULL;
    TRIFOLD_MPI_CALL(MPI_Comm_group, world_, &all);
    TRIFOLD_MPI_CALL(MPI_Group_incl, all, mpi_count(processes.size()), processes.data(), &some);
    TRIFOLD_MPI_CALL(MPI_Comm_create_group, world_, some, 0, &joined);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return joined;
  }

  void look_around() {
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_, &rank_);
    MPI_Comm_size(world_, &size_);
    MPI_Comm here = MPI_COMM_NULL;
    TRIFOLD_MPI_CALL(MPI_Comm_split_type, world_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &processes_here_);
    MPI_Comm_free(&here);
  }

  MPI_Comm world_ = MPI_COMM_WORLD;
  int rank_ = 0;
  int size_ = 1;
  int processes_here_ = 1;
  std::shared_ptr<MpiEngine> engine_ = std::make_shared<MpiEngine>();
};

void MpiProcess::join(Watch& watch, int rank, int size) {
  constexpr auto kPatience = std::chrono::seconds(60);
  MPI_Comm all = MPI_COMM_SELF;
  // One after the other, so that the world's order is that of ranks: those who are in let the next one in.
  for (int next = std::max(rank, 1); next < size; ++next) {
    const std::string name = fmt::format("mpi port {}", next);
    std::array<char, MPI_MAX_PORT_NAME> port{};
    MPI_Comm between = MPI_COMM_NULL;
    if (rank == next) {
      const std::string given = watch.look_up(name, kPatience);
      TRIFOLD_MPI_CALL(MPI_Comm_connect, given.c_str(), MPI_INFO_NULL, 0, MPI_COMM_SELF, &between);
    } else {
      if (rank == 0) {
        TRIFOLD_MPI_CALL(MPI_Open_port, MPI_INFO_NULL, port.data());
        watch.publish(name, port.data());
      }
      TRIFOLD_MPI_CALL(MPI_Comm_accept, port.data(), MPI_INFO_NULL, 0, all, &between);
      if (rank == 0) MPI_Close_port(port.data());
    }
    TRIFOLD_MPI_CALL(MPI_Intercomm_merge, between, rank == next ? 1 : 0, &all);
  }
  world_ = all;
  look_around();
}

}  // namespace

std::unique_ptr<Mpi> start_mpi() {
  return std::make_unique<MpiProcess>();
}

}  // namespace trifold
