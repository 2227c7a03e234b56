// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trifold {

enum class DType : std::uint8_t { f32, f16, bf16, i32, u8, f64 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

// The types a user may choose for activations, as job files name them.
constexpr const char* precision_name(DType type) {
  return type == DType::f16 ? "fp16" : type == DType::bf16 ? "bf16" : "fp32";
}
constexpr std::optional<DType> parse_precision(std::string_view name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    if (name == precision_name(type)) return type;
  return std::nullopt;
}

}  // namespace trifold
