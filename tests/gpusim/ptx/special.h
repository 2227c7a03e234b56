// Special registers. Those that differ by lane lie at the start of each warp's registers, those that are the same for
// all lanes at the start of the launch's constants; both are rows of 32 lanes, so reading one is a plain move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ptx/instruction.h"

namespace gpusim::ptx {

inline constexpr std::uint32_t kLanes = 32;
inline constexpr std::uint32_t kAllLanes = ~std::uint32_t{0};
inline constexpr std::size_t kRow32 = kLanes * 4;  // bytes of a row
inline constexpr std::size_t kRow64 = kLanes * 8;

enum class WarpRow : std::uint32_t {
  tid_x,
  tid_y,
  tid_z,
  laneid,
  warpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  count
};
enum class LaunchRow : std::uint32_t {
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  smid,
  nsmid,
  nwarpid,
  dynamic_shared_size,
  total_shared_size,
  envreg1,  // with envreg2, lower: the address of a cooperative grid's workspace
  envreg2,
  count
};
inline constexpr std::size_t kWarpRowBytes = static_cast<std::size_t>(WarpRow::count) * kRow32;
inline constexpr std::size_t kLaunchRowBytes = static_cast<std::size_t>(LaunchRow::count) * kRow32;

inline Operand operand_of(WarpRow row) {
  return Operand::in_registers(static_cast<std::uint32_t>(row) * static_cast<std::uint32_t>(kRow32));
}
inline Operand operand_of(LaunchRow row) {
  return Operand::in_constants(static_cast<std::uint32_t>(row) * static_cast<std::uint32_t>(kRow32));
}

// The row of "%tid.x" and the like (32 bits each); an operand that does not exist for any other name.
Operand special_register(std::string_view name);
// "%clock", "%clock64", "%globaltimer": they count the warp instructions of the launch, so runs repeat exactly.
bool is_clock(std::string_view name);

}  // namespace gpusim::ptx
