#include "engine/double_mapping.h"

#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "engine/report.h"

namespace gpusim {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  fatal(Finding::unsupported,
        "the system does not give the simulator its address space: " + what + ": " + std::strerror(errno));
}

struct WholePages {
  std::uintptr_t begin, end;
};
WholePages whole_pages(std::uintptr_t begin, std::size_t bytes) {
  return {(begin + kPageBytes - 1) & ~(kPageBytes - 1), (begin + bytes) & ~(kPageBytes - 1)};
}

}  // namespace

DoubleMapping::DoubleMapping(const char* name, std::size_t bytes) : bytes_(bytes) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) refuse("memfd_create");
  void* user = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* simulator = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (user == MAP_FAILED || simulator == MAP_FAILED) refuse("mmap");
  user_ = reinterpret_cast<std::uint64_t>(user);
  simulator_ = static_cast<std::byte*>(simulator);
}

void DoubleMapping::discard(std::size_t offset, std::size_t bytes) const {
  const auto [begin, end] = whole_pages(offset, bytes);
  if (begin < end) madvise(simulator_ + begin, end - begin, MADV_REMOVE);
}

void* reserve_zeroed(std::size_t bytes) {
  void* begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) refuse("mmap");
  return begin;
}

void discard_zeroed(void* memory, std::size_t bytes) {
  const auto [begin, end] = whole_pages(reinterpret_cast<std::uintptr_t>(memory), bytes);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace gpusim
