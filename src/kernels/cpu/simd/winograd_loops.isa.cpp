// The table of Winograd loops of this instruction set.
#include "kernels/cpu/simd/winograd_loops.h"

#include "kernels/cpu/simd/winograd_passes.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const WinogradLoops winograd_loops_table;
const WinogradLoops winograd_loops_table{
    .lanes = kLanes,
    .tile_rows = kTileRows,
    .transform_input = winograd_transform_input,
    .transform_output = winograd_transform_output,
    .transform_gradient = winograd_transform_gradient,
    .transform_weights = winograd_transform_weights,
    .multiply = winograd_multiply,
    .multiply_weights = winograd_multiply_weights,
    .transform_weight_gradient = winograd_transform_weight_gradient,
};

}  // namespace trifold::cpu::TRIFOLD_ISA
