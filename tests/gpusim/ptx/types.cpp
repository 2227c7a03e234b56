// Names and sizes of the PTX types.
#include "ptx/types.h"

#include <array>

namespace gpusim::ptx {
namespace {

struct Row {
  Type type;
  const char* name;
  std::size_t bytes;
};
constexpr std::array kRows{
    Row{Type::b8, "b8", 1},       Row{Type::u8, "u8", 1},         Row{Type::s8, "s8", 1},
    Row{Type::b16, "b16", 2},     Row{Type::u16, "u16", 2},       Row{Type::s16, "s16", 2},
    Row{Type::f16, "f16", 2},     Row{Type::bf16, "bf16", 2},     Row{Type::b32, "b32", 4},
    Row{Type::u32, "u32", 4},     Row{Type::s32, "s32", 4},       Row{Type::f32, "f32", 4},
    Row{Type::f16x2, "f16x2", 4}, Row{Type::bf16x2, "bf16x2", 4}, Row{Type::tf32, "tf32", 4},
    Row{Type::b64, "b64", 8},     Row{Type::u64, "u64", 8},       Row{Type::s64, "s64", 8},
    Row{Type::f64, "f64", 8},     Row{Type::b128, "b128", 16},    Row{Type::pred, "pred", 1},
};

}  // namespace

Type parse_type(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.type;
  return Type::none;
}

const char* name_of(Type type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.name;
  return "none";
}

std::size_t bytes_of(Type type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.bytes;
  return 0;
}

}  // namespace gpusim::ptx
