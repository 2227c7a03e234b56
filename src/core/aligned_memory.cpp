#include "core/aligned_memory.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "core/error.h"

namespace trifold {

AlignedMemory::AlignedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail_runtime("the system refuses {:.1f} MB of memory ({}); make train.batch smaller",
                 static_cast<double>(bytes) / 1e6, std::strerror(errno));
  // Fewer page faults and TLB misses; a system without huge pages ignores it.
  madvise(memory, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(memory);
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

AlignedMemory::~AlignedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace trifold
