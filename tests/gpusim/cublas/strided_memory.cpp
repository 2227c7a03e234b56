#include "cublas/strided_memory.h"

#include <algorithm>
#include <cstring>

#include "engine/library.h"

namespace gpusim {
namespace {

// Reads are claimed in pieces this long: the simulator calls a range uninitialised only when nobody wrote any of it.
constexpr std::size_t kReadPieceBytes = 64;

// Dimensions of more than one element, the smallest stride last, neighbours that lie back to back merged.
struct Run {
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;
};
Run merged(const StridedShape& shape) {
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // stride, dim
  for (int d = 0; d < kMaxDims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (shape.dims[i] != 1) order.emplace_back(shape.strides[i], shape.dims[i]);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (order.empty() || order.back().first != 1) order.emplace_back(1, 1);
  Run run;
  for (const auto& [stride, dim] : order) {
    if (!run.dims.empty() && run.strides.back() == stride * dim) {
      run.dims.back() *= dim;
      run.strides.back() = stride;
    } else {
      run.dims.push_back(dim);
      run.strides.push_back(stride);
    }
  }
  return run;
}

// Calls visit(offset in elements) for every index of all dimensions but the last.
template <class Visit>
bool for_each_run(const Run& run, const Visit& visit) {
  std::vector<std::int64_t> index(run.dims.size() - 1, 0);
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * run.strides[d];
    if (!visit(offset)) return false;
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == run.dims[d - 1]) index[--d] = 0;
    if (d == 0) return true;
  }
}

void* claim_range(std::byte* first, std::size_t bytes, Claim how, std::string_view what) {
  if (how == Claim::write) return map_for_write(first, bytes, what);
  if (how == Claim::update) return map_for_update(first, bytes, what);
  const void* view = nullptr;
  for (std::size_t at = 0; at < bytes; at += kReadPieceBytes) {
    const void* piece = map_for_read(first + at, std::min(kReadPieceBytes, bytes - at), what);
    if (!piece) return nullptr;
    if (at == 0) view = piece;
  }
  return const_cast<void*>(view);
}

// Calls row(host offset in elements, packed offset) for every index of the first four dimensions.
template <class Row>
void for_each_row(const StridedShape& shape, const Row& row) {
  const auto& n = shape.dims;
  const auto& s = shape.strides;
  std::int64_t packed = 0;
  for (std::int64_t a = 0; a < n[0]; ++a) {
    for (std::int64_t b = 0; b < n[1]; ++b) {
      for (std::int64_t c = 0; c < n[2]; ++c) {
        for (std::int64_t d = 0; d < n[3]; ++d, packed += n[4]) {
          row(a * s[0] + b * s[1] + c * s[2] + d * s[3], packed);
        }
      }
    }
  }
}

}  // namespace

std::int64_t StridedShape::elements() const {
  std::int64_t count = 1;
  for (const auto dim : dims) count *= dim;
  return count;
}

std::int64_t StridedShape::extent() const {
  if (elements() == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return last + 1;
}

bool StridedShape::overlaps_itself() const {
  const Run run = merged(*this);
  std::int64_t reached = 0;  // by the dimensions with smaller strides
  for (std::size_t d = run.dims.size(); d > 0; --d) {
    if (run.dims[d - 1] > 1 && run.strides[d - 1] <= reached) return true;
    reached += (run.dims[d - 1] - 1) * run.strides[d - 1];
  }
  return false;
}

void* claim(void* device_pointer, Element type, const StridedShape& shape, Claim how, std::string_view what) {
  if (shape.elements() == 0) return nullptr;
  auto* first = static_cast<std::byte*>(device_pointer);
  const std::size_t element_bytes = bytes_of(type);
  const Run run = merged(shape);
  void* view = nullptr;
  const bool all = for_each_run(run, [&](std::int64_t offset) {
    void* piece = claim_range(first + static_cast<std::size_t>(offset) * element_bytes,
                              static_cast<std::size_t>(run.dims.back()) * element_bytes, how, what);
    if (offset == 0) view = piece;
    return piece != nullptr;
  });
  return all ? view : nullptr;
}

const void* claim_for_read(const void* device_pointer, Element type, const StridedShape& shape, std::string_view what) {
  return claim(const_cast<void*>(device_pointer), type, shape, Claim::read, what);
}

std::vector<float> widen(const void* host_view, Element type, const StridedShape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  with_element(type, [&](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(host_view);
    for_each_row(shape, [&](std::int64_t offset, std::int64_t packed) {
      float* to = values.data() + packed;
      const T* row = from + offset;
      const std::int64_t stride = shape.strides[4];
      for (std::int64_t i = 0; i < shape.dims[4]; ++i) to[i] = static_cast<float>(row[i * stride]);
    });
  });
  return values;
}

std::vector<float> read_packed(const void* device_pointer, Element type, const StridedShape& shape,
                               std::string_view what) {
  const void* view = claim_for_read(device_pointer, type, shape, what);
  return view ? widen(view, type, shape) : std::vector<float>();
}

bool write_packed(void* device_pointer, Element type, const StridedShape& shape, const std::vector<float>& values,
                  const Blend& blend, std::string_view what) {
  void* view = claim(device_pointer, type, shape, blend.beta == 0 ? Claim::write : Claim::update, what);
  if (!view) return shape.elements() == 0;
  with_element(type, [&](auto element) {
    using T = decltype(element);
    for_each_row(shape, [&](std::int64_t offset, std::int64_t packed) {
      const float* from = values.data() + packed;
      T* row = static_cast<T*>(view) + offset;
      const std::int64_t stride = shape.strides[4];
      for (std::int64_t i = 0; i < shape.dims[4]; ++i) {
        T& to = row[i * stride];
        const float kept = blend.beta == 0 ? 0.0F : blend.beta * static_cast<float>(to);
        to = T(blend.alpha * from[i] + kept);
      }
    });
  });
  return true;
}

bool scribble(void* device_pointer, std::size_t bytes, std::string_view what) {
  if (bytes == 0) return true;
  void* view = map_for_write(device_pointer, bytes, what);
  if (!view) return false;
  std::memset(view, 0xFF, bytes);  // NaN in every float type: whoever takes it for data sees it
  return true;
}

}  // namespace gpusim
