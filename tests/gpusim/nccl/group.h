// ncclGroupStart and ncclGroupEnd. Calls are collected and acted on when the outermost group of the thread ends; a call
// outside of a group is a group of its own.
#pragma once

#include <functional>
#include <utility>

#include "nccl/communicator.h"

namespace gpusim {

class Group {
 public:
  static Group& of_this_thread();

  bool is_open() const { return depth_ > 0; }
  void start() { ++depth_; }
  ncclResult_t end();

  // Either is done at once outside of a group.
  ncclResult_t add_call(ncclComm& comm, cudaStream_t stream, const Call& call);
  // Of a communicator. All of a group join before any waits.
  struct Setup {
    std::function<ncclResult_t()> join = [] { return ncclSuccess; };
    std::function<ncclResult_t()> wait;
  };
  ncclResult_t add_setup(Setup setup);

  // An error in a group fails the whole group.
  ncclResult_t fail(ncclResult_t result);

 private:
  struct Collected {
    ncclComm* comm = nullptr;
    cudaStream_t stream = nullptr;
    Call call;
  };
  static ncclResult_t set_up(const std::vector<Setup>& setups);
  static ncclResult_t enqueue_all(const std::vector<Collected>& calls);

  int depth_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::vector<Collected> calls_;
  std::vector<Setup> setups_;
};

}  // namespace gpusim
