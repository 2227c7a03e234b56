// Names of the special registers.
#include "ptx/special.h"

#include <algorithm>
#include <array>

namespace gpusim::ptx {
namespace {

template <class Row>
struct Named {
  std::string_view name;
  Row row;
};
constexpr std::array kWarpRows{
    Named<WarpRow>{"%tid.x", WarpRow::tid_x},
    Named<WarpRow>{"%tid.y", WarpRow::tid_y},
    Named<WarpRow>{"%tid.z", WarpRow::tid_z},
    Named<WarpRow>{"%laneid", WarpRow::laneid},
    Named<WarpRow>{"%warpid", WarpRow::warpid},
    Named<WarpRow>{"%lanemask_eq", WarpRow::lanemask_eq},
    Named<WarpRow>{"%lanemask_lt", WarpRow::lanemask_lt},
    Named<WarpRow>{"%lanemask_le", WarpRow::lanemask_le},
    Named<WarpRow>{"%lanemask_gt", WarpRow::lanemask_gt},
    Named<WarpRow>{"%lanemask_ge", WarpRow::lanemask_ge},
};
constexpr std::array kLaunchRows{
    Named<LaunchRow>{"%ntid.x", LaunchRow::ntid_x},
    Named<LaunchRow>{"%ntid.y", LaunchRow::ntid_y},
    Named<LaunchRow>{"%ntid.z", LaunchRow::ntid_z},
    Named<LaunchRow>{"%ctaid.x", LaunchRow::ctaid_x},
    Named<LaunchRow>{"%ctaid.y", LaunchRow::ctaid_y},
    Named<LaunchRow>{"%ctaid.z", LaunchRow::ctaid_z},
    Named<LaunchRow>{"%nctaid.x", LaunchRow::nctaid_x},
    Named<LaunchRow>{"%nctaid.y", LaunchRow::nctaid_y},
    Named<LaunchRow>{"%nctaid.z", LaunchRow::nctaid_z},
    Named<LaunchRow>{"%smid", LaunchRow::smid},
    Named<LaunchRow>{"%nsmid", LaunchRow::nsmid},
    Named<LaunchRow>{"%nwarpid", LaunchRow::nwarpid},
    Named<LaunchRow>{"%dynamic_smem_size", LaunchRow::dynamic_shared_size},
    Named<LaunchRow>{"%total_smem_size", LaunchRow::total_shared_size},
    Named<LaunchRow>{"%envreg1", LaunchRow::envreg1},
    Named<LaunchRow>{"%envreg2", LaunchRow::envreg2},
};

}  // namespace

Operand special_register(std::string_view name) {
  for (const auto& [known, row] : kWarpRows)
    if (known == name) return operand_of(row);
  for (const auto& [known, row] : kLaunchRows)
    if (known == name) return operand_of(row);
  return {};
}

bool is_clock(std::string_view name) {
  return name == "%clock" || name == "%clock64" || name == "%globaltimer" || name == "%clock_hi";
}

}  // namespace gpusim::ptx
