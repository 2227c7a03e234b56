// Replaces the program's operator new. oneDNN is told by any of its frames on the stack, because it may allocate
// through templates that the linker took from our program; OpenMP by the return address alone, because our loops run
// above it.
#include "support/allocation_counter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

#include <execinfo.h>
#include <link.h>

namespace trifold::test {
namespace {

struct CodeRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// Fixed-size, because it is read while allocating.
struct Library {
  std::array<CodeRange, 64> ranges;
  std::size_t size = 0;

  bool holds(const void* address) const {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    return std::any_of(ranges.begin(), ranges.begin() + size,
                       [&](const CodeRange& range) { return range.begin <= value && value < range.end; });
  }
};

Library onednn;
Library openmp;
std::atomic<bool> counting = false;
std::atomic<std::int64_t> counted = 0;
thread_local bool inside = false;  // backtrace() may allocate

int note_library(dl_phdr_info* info, std::size_t, void*) {
  const std::string_view name = info->dlpi_name;
  Library* library = nullptr;
  if (name.find("libdnnl") != std::string_view::npos) library = &onednn;
  if (name.find("libgomp") != std::string_view::npos || name.find("libomp") != std::string_view::npos)
    library = &openmp;
  if (library == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || library->size == library->ranges.size()) continue;
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    library->ranges[library->size++] = {begin, begin + segment.p_memsz};
  }
  return 0;
}

bool is_ours(const void* caller) {
  if (openmp.holds(caller)) return false;
  std::array<void*, 64> frames{};
  const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  return std::none_of(frames.begin(), frames.begin() + depth, [](void* frame) { return onednn.holds(frame); });
}

void note_allocation(const void* caller) {
  if (!counting.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  if (is_ours(caller)) counted.fetch_add(1, std::memory_order_relaxed);
  inside = false;
}

void* allocate(std::size_t bytes) {
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* allocate(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

AllocationCounter::AllocationCounter() {
  onednn.size = openmp.size = 0;
  ::dl_iterate_phdr(note_library, nullptr);
  std::array<void*, 1> warm_up{};
  ::backtrace(warm_up.data(), 1);  // its first call loads a library
  counted = 0;
  counting = true;
}

AllocationCounter::~AllocationCounter() {
  counting = false;
}

std::int64_t AllocationCounter::count() const {
  return counted.load();
}

}  // namespace trifold::test

using trifold::test::allocate;
using trifold::test::note_allocation;
using trifold::test::or_throw;

void* operator new(std::size_t bytes) {
  note_allocation(__builtin_return_address(0));
  return or_throw(allocate(bytes));
}
void* operator new[](std::size_t bytes) {
  note_allocation(__builtin_return_address(0));
  return or_throw(allocate(bytes));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  note_allocation(__builtin_return_address(0));
  return allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  note_allocation(__builtin_return_address(0));
  return allocate(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  note_allocation(__builtin_return_address(0));
  return or_throw(allocate(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  note_allocation(__builtin_return_address(0));
  return or_throw(allocate(bytes, alignment));
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
