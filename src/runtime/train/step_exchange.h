// When a step asks for tensors and hands them out. On the host a tensor is asked for right before the first node that
// reads it, and its gradient is handed out right after the last node that writes it; where that is not yet the update's
// (micro-batches), and of stages, when the rank has ended its step. A device that works on its own gets all tensors
// before the step, and they are taken from it after.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/executor/node_watcher.h"
#include "runtime/train/parameter_exchange.h"
#include "runtime/train/served_tensors.h"

namespace trifold {

class StepExchange {
 public:
  // `early`: the gradients that a pass leaves are the update's.
  StepExchange(const ServedTensors& tensors, ParameterExchange& other, bool early);

  // To be told of the nodes of a chunk's training program.
  NodeWatcher* watcher(int rank, int chunk);

  // Around the ranks' steps, on the thread that starts them.
  void begin();
  void end();
  // Around a rank's step, on the rank's thread.
  void begin(int rank);
  void end(int rank);
  // A rank has failed: nobody waits for it any more.
  void abort(const std::string& why);

 private:
  enum class State : std::uint8_t { unknown, asked, there };

  class Chunk final : public NodeWatcher {
   public:
    Chunk(StepExchange& whole, int rank, int chunk) : whole_(whole), rank_(rank), chunk_(chunk) {}
    void before(std::size_t node) override;
    void after(std::size_t node) override;

    // A tensor of this chunk, with its place among the tensor's holders.
    struct Member {
      int tensor = 0;
      std::size_t holder = 0;
      bool handed_out = false;
    };

    StepExchange& whole_;
    int rank_;
    int chunk_;
    std::vector<Member> members_;                         // in the order of tensors
    std::vector<std::vector<int>> needs_ = {};            // by node: tensors
    std::vector<std::vector<std::size_t>> readies_ = {};  // by node: members
  };

  Chunk& chunk_of(const ServedTensors::Holder& holder);
  void watch(Chunk::Member& member, Chunk& chunk, std::size_t index);
  std::span<float> buffer_of(int tensor, int rank);
  void ask(int tensor, int rank);
  void fill(int tensor, int rank);
  void hand_out(Chunk::Member& member, int rank);
  void hand_out_rest(Chunk& chunk, bool trained);

  const ServedTensors& tensors_;
  ParameterExchange& other_;
  bool early_;
  bool on_host_ = true;
  std::deque<Chunk> chunks_;                   // in the order of the network's parts
  std::vector<int> unread_;                    // tensors that no node reads
  std::vector<std::vector<float>> of_tensor_;  // wholes that ranks put together; of a device: all
  std::vector<std::vector<float>> of_rank_;    // for a tensor that lies otherwise in memory, while it is handed over

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;    // of what the step asks for
  std::vector<int> parts_left_;  // of what it hands out
  std::string failure_;          // of a rank; empty: none
};

}  // namespace trifold
