// The host as a device: its memory is everybody's, and work is done when it is given.
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <unistd.h>

#include "core/aligned_memory.h"
#include "core/device.h"

namespace trifold {
namespace {

// The batch is written where the program reads it.
class HostInput final : public InputPort {
 public:
  explicit HostInput(std::byte* region) : region_(region) {}
  std::byte* host() override { return region_; }
  void submit() override {}
  void arrive() override {}

 private:
  std::byte* region_;
};

class HostResult final : public ResultPort {
 public:
  HostResult(const std::byte* region, std::size_t bytes) : region_(region), bytes_(bytes) {}
  void take() override {
    if (collected_) taken_.clear();
    collected_ = false;
    taken_.insert(taken_.end(), region_, region_ + bytes_);
  }
  std::span<const std::byte> collect() override {
    if (collected_) return {};
    collected_ = true;
    return taken_;
  }

 private:
  const std::byte* region_;
  std::size_t bytes_;
  std::vector<std::byte> taken_;
  bool collected_ = true;
};

class HostDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  bool host_memory() const override { return true; }
  std::size_t memory_bytes() const override {
    return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
  }

  std::byte* allocate(std::size_t bytes) override {
    AlignedMemory memory(bytes);
    std::byte* data = memory.data();
    const std::lock_guard lock(mutex_);
    memory_.emplace(data, std::move(memory));
    return data;
  }
  void clear(std::byte* memory, std::size_t bytes) override { std::memset(memory, 0, bytes); }
  void release(std::byte* memory) noexcept override {
    const std::lock_guard lock(mutex_);
    memory_.erase(memory);
  }
  void upload(std::byte* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const std::byte* from, std::size_t bytes) override { copy(to, from, bytes); }
  void synchronize() override {}
  std::unique_ptr<InputPort> make_input(std::byte* region, std::size_t /*bytes*/) override {
    return std::make_unique<HostInput>(region);
  }
  std::unique_ptr<ResultPort> make_result(const std::byte* region, std::size_t bytes) override {
    return std::make_unique<HostResult>(region, bytes);
  }
  void set_step(const StepContext& /*context*/) override {}
  std::unique_ptr<Recording> record(const std::function<void()>& /*give*/) override { return nullptr; }

 private:
  // Nothing may lie at a null pointer.
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  std::mutex mutex_;  // ranks of one process take memory at the same time
  std::map<std::byte*, AlignedMemory> memory_;
};

}  // namespace

Device& host_device() {
  static HostDevice device;
  return device;
}

}  // namespace trifold
