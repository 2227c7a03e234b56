#include "engine/device_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/double_mapping.h"
#include "engine/operations.h"
#include "engine/peer_access.h"
#include "engine/pinned_memory.h"

namespace gpusim {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kSmallestRedZone = 256;
constexpr std::size_t kLargestRedZone = std::size_t{1} << 20;
// Larger blocks keep the zeros of fresh pages: writing them would cost the machine real memory.
constexpr std::size_t kLargestPoisonedBlock = std::size_t{16} << 20;
constexpr int kPoison = 0xCB;

std::size_t round_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) & ~(kAlignment - 1);
}

const DoubleMapping& device_mapping() {
  static auto* both = new DoubleMapping("gpusim-device", kMaxDevices * kDeviceBytes);
  return *both;
}

std::size_t capacity_from_environment() {
  const char* megabytes = std::getenv("GPUSIM_MEMORY_MB");
  return static_cast<std::size_t>(megabytes ? std::strtoull(megabytes, nullptr, 10) : 8192) << 20;
}

}  // namespace

DeviceMemory& DeviceMemory::get() {
  static auto* memory = new DeviceMemory;
  return *memory;
}

DeviceMemory::DeviceMemory() : capacity_(capacity_from_environment()) {
  user_ = device_mapping().user();
  sim_ = device_mapping().simulator();
  shadow_ = static_cast<std::uint8_t*>(reserve_zeroed(device_mapping().bytes()));
  for (auto& top : top_) top = kLargestRedZone;  // an access just below the first block is out of bounds too
}

void* DeviceMemory::allocate(int device, std::size_t bytes, const char* what) {
  std::lock_guard lock(mutex_);
  // Behind a block lies as much closed memory as the block has, within limits: an index twice too large is seen.
  const std::size_t red_zone = std::clamp(bytes, kSmallestRedZone, kLargestRedZone);
  const std::size_t stretch = round_up(bytes) + round_up(red_zone);
  if (used_[device] + bytes > capacity_ || bytes > capacity_ || top_[device] + stretch > kDeviceBytes) return nullptr;
  const Address address = user_ + static_cast<Address>(device) * kDeviceBytes + top_[device];
  top_[device] += stretch;
  used_[device] += bytes;
  blocks_[address] = Block{.bytes = bytes, .live = true, .what = what};
  std::memset(shadow(address), kUnwritten, bytes);
  if (bytes <= kLargestPoisonedBlock) std::memset(translate(address), kPoison, bytes);
  return reinterpret_cast<void*>(address);
}

void DeviceMemory::forget(Address address, Block& block) {
  block.live = false;
  used_[device_of(address)] -= block.bytes;
  std::memset(shadow(address), kNotAddressable, block.bytes);
  discard_zeroed(shadow(address), block.bytes);
  device_mapping().discard(address - user_, block.bytes);
  forget_accesses(address, block.bytes);
}

DeviceMemory::FreeResult DeviceMemory::release(void* pointer) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<Address>(pointer));
  if (found == blocks_.end()) return FreeResult::not_an_allocation;
  if (!found->second.live) return FreeResult::already_free;
  forget(found->first, found->second);
  return FreeResult::freed;
}

void DeviceMemory::release_all(int device) {
  std::lock_guard lock(mutex_);
  for (auto& [address, block] : blocks_) {
    if (block.live && device_of(address) == device) forget(address, block);
  }
}

std::size_t DeviceMemory::used_bytes(int device) const {
  std::lock_guard lock(mutex_);
  return used_[device];
}

void DeviceMemory::report_leaks() const {
  std::lock_guard lock(mutex_);
  for (const auto& [address, block] : blocks_) {
    if (!block.live || !block.what.starts_with("cudaMalloc")) continue;  // a module's variables live with it
    report(Finding::leak, std::to_string(block.bytes) + " bytes from " + block.what + " at " + hex(address) +
                              " of device " + std::to_string(device_of(address)) + " were never freed");
  }
}

DeviceMemory::Blocks::const_iterator DeviceMemory::block_at_or_before(Address address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return device_of(next->first) == device_of(address) ? next : blocks_.end();
}

std::optional<DeviceMemory::Extent> DeviceMemory::block_of(Address address) const {
  if (!contains(address)) return std::nullopt;
  std::lock_guard lock(mutex_);
  const auto found = block_at_or_before(address);
  if (found == blocks_.end()) return std::nullopt;
  const auto& [begin, block] = *found;
  if (address >= begin + std::max<std::size_t>(block.bytes, 1)) return std::nullopt;
  return Extent{.address = begin, .bytes = block.bytes, .live = block.live};
}

std::string DeviceMemory::describe(Address address) const {
  const std::string where = "address " + hex(address);
  if (!contains(address)) {
    if (address < kPageBytes) return where + " is a null pointer, or close to one";
    if (PinnedMemory::get().contains(address)) {
      return where + " is pinned host memory (which kernels can reach on a real device; the simulator does not map it)";
    }
    return where + " is not device memory (a host pointer?)";
  }
  std::lock_guard lock(mutex_);
  const auto found = block_at_or_before(address);
  const std::string on_device = " of device " + std::to_string(device_of(address));
  if (found == blocks_.end()) return where + " is before the first block" + on_device;
  const auto& [begin, block] = *found;
  const std::string name = " the " + std::to_string(block.bytes) + "-byte " + (block.live ? "" : "freed ") + "block (" +
                           block.what + ") at " + hex(begin) + on_device;
  const std::size_t offset = address - begin;
  if (offset < block.bytes) return where + " is " + std::to_string(offset) + " bytes into" + name;
  return where + " is " + std::to_string(offset - block.bytes) + " bytes past the end of" + name;
}

std::optional<DeviceMemory::Violation> DeviceMemory::violation(Address address, std::size_t bytes,
                                                               Access access) const {
  if (bytes == 0) return std::nullopt;
  if (!contains(address)) return Violation{Finding::host_pointer_in_kernel, describe(address)};
  // No block reaches across the end of a device's stretch, so the shadow decides where it stops.
  const std::uint8_t* first = shadow(address);
  const std::size_t in_range = std::min<std::size_t>(bytes, user_ + kMaxDevices * kDeviceBytes - address);
  if (const void* closed = std::memchr(first, kNotAddressable, in_range)) {
    const Address where = address + static_cast<Address>(static_cast<const std::uint8_t*>(closed) - first);
    const auto block = block_of(where);
    const bool freed = block && !block->live;
    return Violation{freed ? Finding::use_after_free : Finding::out_of_bounds, describe(where)};
  }
  if (const Operation* running = current_operation(); running && !running->any_device) {
    const int device = device_of(address);
    if (!peer_access_enabled(running->device, device)) {
      return Violation{Finding::peer_access, "device " + std::to_string(running->device) +
                                                 " has no peer access to device " + std::to_string(device) + "; " +
                                                 describe(address)};
    }
  }
  if (access != Access::write && !std::memchr(first, kWritten, bytes)) {
    return Violation{Finding::uninitialised_read, "nobody wrote it: " + describe(address)};
  }
  return std::nullopt;
}

std::string DeviceMemory::check(Address address, std::size_t bytes, Access access) const {
  const auto wrong = violation(address, bytes, access);
  return wrong ? wrong->text : std::string();
}

void DeviceMemory::mark_written(Address address, std::size_t bytes) {
  std::memset(shadow(address), kWritten, bytes);
}

}  // namespace gpusim
