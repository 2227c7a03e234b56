// One stretch of memory seen twice: the program's view, whose pages can be closed to it, and the simulator's own view,
// which always works. Pages cost nothing until they are used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusim {

class DoubleMapping {
 public:
  DoubleMapping(const char* name, std::size_t bytes);  // all pages closed to the program; fatal when the system refuses
  std::uint64_t user() const { return user_; }
  std::byte* simulator() const { return simulator_; }
  std::size_t bytes() const { return bytes_; }
  // Gives the whole pages inside the range back to the system; they read as zeros afterwards.
  void discard(std::size_t offset, std::size_t bytes) const;

 private:
  std::uint64_t user_ = 0;
  std::byte* simulator_ = nullptr;
  std::size_t bytes_ = 0;
};

inline constexpr std::size_t kPageBytes = 4096;

// Zeroed memory for tables about such a stretch, also free until it is used.
void* reserve_zeroed(std::size_t bytes);
void discard_zeroed(void* begin, std::size_t bytes);  // the whole pages inside the range are zero again

}  // namespace gpusim
