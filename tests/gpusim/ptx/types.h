// The scalar types of PTX and their sizes. `none` stands for a name that is not a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpusim::ptx {

enum class Type : std::uint8_t {
  none,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  f16x2,
  bf16x2,
  tf32,
  b64,
  u64,
  s64,
  f64,
  b128,
  pred,
};

Type parse_type(std::string_view name);  // without the dot
const char* name_of(Type type);
std::size_t bytes_of(Type type);
inline bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
inline bool is_integer(Type type) {  // .bN counts: it is moved and compared as an unsigned number
  return type != Type::none && type != Type::pred && type != Type::b128 &&
         !(type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f16x2 ||
           type == Type::bf16x2 || type == Type::tf32 || type == Type::f64);
}

}  // namespace gpusim::ptx
