// The ranks of a device that has its own way between them (GPUs: NCCL), as far as the program knows it; the backend's
// kernels know the rest. All ranks call the same of these at the same time, each on its own thread, but for abort().
#pragma once

#include <string>

namespace trifold {

// The messages that one part of the network sends to another. They are received in the order in which they are sent.
struct Route {
  int number = 0;  // the same on both sides
  int stage = 0;   // the other side
  bool sends = false;

  bool operator==(const Route&) const = default;
  auto operator<=>(const Route&) const = default;
};

class DeviceGroups {
 public:
  DeviceGroups() = default;
  DeviceGroups(const DeviceGroups&) = delete;
  DeviceGroups& operator=(const DeviceGroups&) = delete;
  virtual ~DeviceGroups() = default;

  // Returns when all ranks have called it.
  virtual void connect() = 0;
  // Returns when the device has done all that this rank exchanges: the memory of it may be given back.
  virtual void finish() = 0;
  // The end, after finish(); no recording with an exchange in it may be left.
  virtual void leave() = 0;
  // Ends every wait for this rank, the device's too, now and later. From any thread.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace trifold
