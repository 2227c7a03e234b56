// Device memory as the libraries see it: up to five dimensions with strides. Only the elements themselves are claimed
// from the simulator, never the gaps between them, so that a neighbour's data in a gap is neither read nor written.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cublas/element.h"

namespace gpusim {

inline constexpr int kMaxDims = 5;

struct StridedShape {
  std::array<std::int64_t, kMaxDims> dims = {1, 1, 1, 1, 1};
  std::array<std::int64_t, kMaxDims> strides = {0, 0, 0, 0, 0};  // in elements

  std::int64_t elements() const;
  std::int64_t extent() const;   // elements from the first to the last, with the gaps
  bool overlaps_itself() const;  // two indices may name one element
};

enum class Claim { read, write, update };

// Inside a Work::run: claims every element and returns the host view of the first one; null after a report. Elements at
// [i] are then found at the same strides from there.
void* claim(void* device_pointer, Element type, const StridedShape& shape, Claim how, std::string_view what);
const void* claim_for_read(const void* device_pointer, Element type, const StridedShape& shape, std::string_view what);

// Claims the elements and widens them into a packed array, last dimension fastest. Empty after a report (or when there
// are no elements).
std::vector<float> read_packed(const void* device_pointer, Element type, const StridedShape& shape,
                               std::string_view what);
// The same for a host view that was claimed before.
std::vector<float> widen(const void* host_view, Element type, const StridedShape& shape);

struct Blend {  // stored value = alpha * result + beta * what was there
  float alpha = 1;
  float beta = 0;
};
// Claims the elements and stores a packed array into them. What was there is read only when beta is not zero.
// False after a report.
bool write_packed(void* device_pointer, Element type, const StridedShape& shape, const std::vector<float>& values,
                  const Blend& blend, std::string_view what);

// Claims a workspace as a kernel that scribbles over it would. False after a report.
bool scribble(void* device_pointer, std::size_t bytes, std::string_view what);

}  // namespace gpusim
