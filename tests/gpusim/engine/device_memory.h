// The memory of all simulated devices. Each device has a stretch of one reserved address range. What cudaMalloc returns
// lies in the user mapping, which the host may not touch (a dereference faults and is reported); the simulator reads
// and writes the same pages through a second mapping. A shadow byte per byte says what may be done with it. Freed
// memory is never given out again, so that every use after free is seen; its pages go back to the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "engine/report.h"

namespace gpusim {

using Address = std::uint64_t;

enum Shadow : std::uint8_t { kNotAddressable = 0, kUnwritten = 1, kWritten = 2 };
enum class Access { read, write, atomic };

inline constexpr int kMaxDevices = 16;
inline constexpr std::size_t kDeviceBytes = std::size_t{256} << 30;  // of address space, which is used once only

class DeviceMemory {
 public:
  static DeviceMemory& get();  // made at first use, never destroyed

  // nullptr when the device's capacity (GPUSIM_MEMORY_MB, 8192 unless set) is used up.
  void* allocate(int device, std::size_t bytes, const char* what = "cudaMalloc");
  enum class FreeResult { freed, already_free, not_an_allocation };
  FreeResult release(void* pointer);
  std::size_t used_bytes(int device) const;
  std::size_t capacity_bytes() const { return capacity_; }
  void report_leaks() const;     // what is still allocated, for the end of a test
  void release_all(int device);  // cudaDeviceReset
  struct Extent {
    Address address = 0;
    std::size_t bytes = 0;
    bool live = false;
  };
  std::optional<Extent> block_of(Address address) const;  // the block, live or freed, that holds the address

  bool contains(Address address) const { return address - user_ < kMaxDevices * kDeviceBytes; }
  int device_of(Address address) const { return static_cast<int>((address - user_) / kDeviceBytes); }
  // The simulator's own view of a device address.
  std::byte* translate(Address address) const { return sim_ + (address - user_); }
  std::uint8_t* shadow(Address address) const { return shadow_ + (address - user_); }
  Address user_base() const { return user_; }

  // Where an address lies, in words: "12 bytes past the end of the 400-byte block at 0x... of device 0".
  std::string describe(Address address) const;

  // Empty when [address, address + bytes) may be accessed so; otherwise what is wrong. Reads of memory that nobody
  // wrote are wrong only when all bytes are unwritten (copies of structs read their padding).
  std::string check(Address address, std::size_t bytes, Access access) const;
  // The same, with the kind of error. Inside an operation it also sees memory of a device without peer access.
  struct Violation {
    Finding finding = Finding::out_of_bounds;
    std::string text;
  };
  std::optional<Violation> violation(Address address, std::size_t bytes, Access access) const;
  void mark_written(Address address, std::size_t bytes);

 private:
  DeviceMemory();

  struct Block {
    std::size_t bytes = 0;
    bool live = true;
    std::string what;
  };
  using Blocks = std::map<Address, Block>;
  Blocks::const_iterator block_at_or_before(Address address) const;  // end(): none on that device
  void forget(Address address, Block& block);

  Address user_ = 0;
  std::byte* sim_ = nullptr;
  std::uint8_t* shadow_ = nullptr;
  std::size_t capacity_ = 0;
  mutable std::mutex mutex_;
  Blocks blocks_;
  std::size_t top_[kMaxDevices] = {};
  std::size_t used_[kMaxDevices] = {};
};

}  // namespace gpusim
