// Values that go from one stage of a pipeline to another. What waits, and on which stream, is told in nccl_groups.h.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/ops/collective.h"
#include "parallel/communicator/nccl/nccl_groups.h"

namespace trifold::cuda {
namespace {

class SendKernel final : public CudaKernel {
 public:
  explicit SendKernel(const KernelRequest& request)
      : CudaKernel(request),
        ranks_(request.ranks),
        route_(op_as<Send>(request).route),
        bytes_(request.in[0].bytes()),
        place_bytes_((bytes_ + 63) / 64 * 64) {
    for (int copy = 0; copy < op_as<Send>(request).copies; ++copy) copies_.push_back({nullptr, make_event()});
  }

  std::string implementation() const override { return "nccl pipeline"; }
  std::size_t lasting_bytes() const override { return copies_.size() * place_bytes_; }

  void run(const StepContext&) override {
    if (copies_.empty()) return send(message_at(in<std::byte>(0)));
    Message& message = copies_[next_copy_];
    wait_for(message);
    std::byte* copy = scratch() + next_copy_ * place_bytes_;
    message.memory = copy;
    TRIFOLD_CUDA(cudaMemcpyAsync(copy, in<std::byte>(0), bytes_, cudaMemcpyDeviceToDevice, stream()));
    send(message);
    next_copy_ = (next_copy_ + 1) % copies_.size();
  }

  // The compute stream waits, not the host.
  void settle() override {
    device().make_current();
    for (Message& message : places_)
      if (message.memory == in<std::byte>(0)) wait_for(message);
  }

 private:
  struct Message {
    const std::byte* memory = nullptr;
    Event sent;
    bool on_its_way = false;
  };

  void send(Message& message) {
    nccl_groups(ranks_).send(route_, {message.memory, bytes_}, message.sent.get());
    message.on_its_way = true;
  }
  void wait_for(Message& message) {
    if (!std::exchange(message.on_its_way, false)) return;
    TRIFOLD_CUDA(cudaStreamWaitEvent(stream(), message.sent.get(), 0));
  }
  // There is one a slot: they are known after the first step.
  Message& message_at(const std::byte* memory) {
    const auto same = [&](const Message& message) { return message.memory == memory; };
    const auto found = std::ranges::find_if(places_, same);
    if (found != places_.end()) return *found;
    return places_.emplace_back(Message{memory, make_event()});
  }

  const RankGroups* ranks_;
  int route_;
  std::size_t bytes_, place_bytes_;
  std::vector<Message> places_;  // sent from where they lie
  std::vector<Message> copies_;
  std::size_t next_copy_ = 0;
};

class ReceiveKernel final : public CudaKernel {
 public:
  explicit ReceiveKernel(const KernelRequest& request)
      : CudaKernel(request),
        ranks_(request.ranks),
        route_(op_as<Receive>(request).route),
        bytes_(request.out[0].bytes()) {}

  std::string implementation() const override { return "nccl pipeline"; }

  void run(const StepContext&) override { nccl_groups(ranks_).receive(route_, {out<std::byte>(0), bytes_}); }

 private:
  const RankGroups* ranks_;
  int route_;
  std::size_t bytes_;
};

const RegisterKernel register_messages_send(cuda_backend(), "send", make_kernel<SendKernel>);
const RegisterKernel register_messages_receive(cuda_backend(), "receive", make_kernel<ReceiveKernel>);

}  // namespace
}  // namespace trifold::cuda
