#include "core/device.h"

#include <utility>

namespace trifold {

DeviceMemory::DeviceMemory(Device& device, std::size_t bytes)
    : device_(&device), data_(bytes == 0 ? nullptr : device.allocate(bytes)), bytes_(bytes) {}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_);
}

}  // namespace trifold
