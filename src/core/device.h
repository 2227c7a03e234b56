// A device that runs programs: its memory, and the order of its work. Work given to a device runs in the order it was
// given, but perhaps later than the call that gave it: what the host wants to see it downloads, which waits.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/step_context.h"

namespace trifold {

// The way of a batch into a program's input region. The host fills one batch while the device still works on the last.
class InputPort {
 public:
  InputPort() = default;
  InputPort(const InputPort&) = delete;
  InputPort& operator=(const InputPort&) = delete;
  virtual ~InputPort() = default;

  virtual std::byte* host() = 0;  // where to write the next batch, laid out as the region; valid until submit()
  virtual void submit() = 0;      // the batch is complete: it starts on its way
  virtual void arrive() = 0;      // work given from now on finds it in the region
};

// The way of a small result to the host, once for each time it is made. Taking it does not wait for the device.
class ResultPort {
 public:
  ResultPort() = default;
  ResultPort(const ResultPort&) = delete;
  ResultPort& operator=(const ResultPort&) = delete;
  virtual ~ResultPort() = default;

  virtual void take() = 0;  // what the work given so far leaves in the region
  // All that was taken since the last time, one after the other; waits for them. Valid until the next take().
  virtual std::span<const std::byte> collect() = 0;
};

// Recorded work that can be given again and again.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual ~Recording() = default;
  virtual void replay() = 0;
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string name() const = 0;          // "cpu", "cuda#0"
  virtual bool host_memory() const = 0;          // its memory is the host's: pointers may be used directly
  virtual std::size_t memory_bytes() const = 0;  // that it has

  virtual std::byte* allocate(std::size_t bytes) = 0;  // contents undefined; aligned for every element and vector type
  virtual void clear(std::byte* memory, std::size_t bytes) = 0;  // to zero
  virtual void release(std::byte* memory) noexcept = 0;
  virtual void upload(std::byte* to, const void* from, std::size_t bytes) = 0;    // `from` may change after the call
  virtual void download(void* to, const std::byte* from, std::size_t bytes) = 0;  // waits for all work given before
  virtual void synchronize() = 0;

  virtual std::unique_ptr<InputPort> make_input(std::byte* region, std::size_t bytes) = 0;
  virtual std::unique_ptr<ResultPort> make_result(const std::byte* region, std::size_t bytes) = 0;

  // What kernels of the work given from now on see as the step. A host kernel is handed it with run().
  virtual void set_step(const StepContext& context) = 0;
  // Records what `give` gives to the device, without doing it. Null where recording would gain nothing.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& give) = 0;
};

Device& host_device();

// Memory of a device, as long as this object lives.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trifold
