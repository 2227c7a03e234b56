// One communicator of NCCL, as one rank holds it. Calls give work to a stream and return; the ranks of a link make the
// same calls in the same order. The communicator does not block the host either, so that abort(), from any thread, ends
// whatever the rank waits for.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include <cuda_runtime.h>
#include <nccl.h>

namespace trifold::cuda {

// Before NCCL is first used: sums are made the same way in every run.
void prepare_nccl();

ncclUniqueId make_nccl_id();

class NcclLink {
 public:
  NcclLink() = default;
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  ~NcclLink();

  // Returns when all ranks of the link are there.
  void connect(const ncclUniqueId& id, int rank, int ranks);
  bool connected() const { return comm_ != nullptr; }

  void all_reduce(std::span<float> data, cudaStream_t stream);
  void all_gather(std::span<const std::byte> part, std::byte* all, cudaStream_t stream);  // `all`: of every rank
  // `all`: a part for every rank. The part may lie in its place in it.
  void reduce_scatter(const float* all, std::span<float> part, cudaStream_t stream);
  void send(std::span<const std::byte> data, int to, cudaStream_t stream);
  void receive(std::span<std::byte> data, int from, cudaStream_t stream);

  struct Outgoing {
    int to = 0;
    std::span<const std::byte> data;
  };
  struct Incoming {
    int from = 0;
    std::span<std::byte> data;
  };
  // All of them as one piece of work, in which none waits for another. A rank that neither sends nor receives need not
  // call it.
  void exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives, cudaStream_t stream);

  void leave();  // all ranks of the link do; nothing may be under way
  void abort(const std::string& reason);

 private:
  template <class Call>
  void give(const char* what, Call call);
  void wait_while_in_progress(const char* what, ncclResult_t result);
  void check_open() const;

  std::mutex mutex_;  // abort() may come at any time
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace trifold::cuda
