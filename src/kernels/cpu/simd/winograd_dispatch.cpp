// Chooses the Winograd loops of the instruction set in use.
#include "kernels/cpu/simd/isa.h"
#include "kernels/cpu/simd/winograd_loops.h"

TRIFOLD_DISPATCH(WinogradLoops, winograd_loops)
