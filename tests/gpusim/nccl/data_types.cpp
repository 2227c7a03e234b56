#include "nccl/data_types.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ptx/half.h"

namespace gpusim {
namespace {

// Calls `body` with a value of the C++ type that `type` stands for.
template <class Body>
void with_type(ncclDataType_t type, const Body& body) {
  switch (type) {
    case ncclInt8:
      return body(std::int8_t{});
    case ncclUint8:
      return body(std::uint8_t{});
    case ncclInt32:
      return body(std::int32_t{});
    case ncclUint32:
      return body(std::uint32_t{});
    case ncclInt64:
      return body(std::int64_t{});
    case ncclUint64:
      return body(std::uint64_t{});
    case ncclFloat16:
      return body(ptx::Half{});
    case ncclFloat32:
      return body(float{});
    case ncclFloat64:
      return body(double{});
    case ncclBfloat16:
      return body(ptx::Bfloat{});
    default:
      return;
  }
}

template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<ptx::Half> {
  using Type = float;
};
template <>
struct Wide<ptx::Bfloat> {
  using Type = float;
};

// Sums and products of integers wrap around, as on the device.
template <class W, class Combine>
W wrapped(W a, W b, const Combine& combine) {
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(combine(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  } else {
    return combine(a, b);
  }
}

template <class W>
W combined(ncclRedOp_t op, W a, W b) {
  switch (op) {
    case ncclProd:
      return wrapped(a, b, [](auto x, auto y) { return x * y; });
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return wrapped(a, b, [](auto x, auto y) { return x + y; });
  }
}

}  // namespace

bool is_simulated(ncclDataType_t type) {
  return bytes_of(type) != 0;
}

std::size_t bytes_of(ncclDataType_t type) {
  std::size_t bytes = 0;
  with_type(type, [&](auto value) { bytes = sizeof value; });
  return bytes;
}

const char* name_of(ncclDataType_t type) {
  constexpr const char* kNames[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
                                    "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return type >= 0 && type < ncclNumTypes ? kNames[type] : "no such type";
}

const char* name_of(ncclRedOp_t op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  return op >= 0 && op < ncclNumOps ? kNames[op] : "no such operation";
}

void reduce(ncclDataType_t type, ncclRedOp_t op, const std::vector<const std::byte*>& contributions, std::size_t count,
            std::byte* result) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    using W = typename Wide<T>::Type;
    auto* to = reinterpret_cast<T*>(result);
    for (std::size_t i = 0; i < count; ++i) {
      W value = static_cast<W>(reinterpret_cast<const T*>(contributions[0])[i]);
      for (std::size_t rank = 1; rank < contributions.size(); ++rank) {
        value = combined(op, value, static_cast<W>(reinterpret_cast<const T*>(contributions[rank])[i]));
      }
      if (op == ncclAvg) value = static_cast<W>(value / static_cast<W>(contributions.size()));
      to[i] = T(value);
    }
  });
}

}  // namespace gpusim
