// The accessors of the loop families: each gives the table of the instruction set in use.
#include "kernels/cpu/simd/activation_loops.h"
#include "kernels/cpu/simd/batch_norm_loops.h"
#include "kernels/cpu/simd/dropout_loops.h"
#include "kernels/cpu/simd/element_loops.h"
#include "kernels/cpu/simd/half_loops.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/cpu/simd/layout_loops.h"
#include "kernels/cpu/simd/loss_loops.h"
#include "kernels/cpu/simd/optimizer_loops.h"
#include "kernels/cpu/simd/pooling_loops.h"

TRIFOLD_DISPATCH(ActivationLoops, activation_loops)
TRIFOLD_DISPATCH(BatchNormLoops, batch_norm_loops)
TRIFOLD_DISPATCH(DropoutLoops, dropout_loops)
TRIFOLD_DISPATCH(ElementLoops, element_loops)
TRIFOLD_DISPATCH(HalfLoops, half_loops)
TRIFOLD_DISPATCH(LayoutLoops, layout_loops)
TRIFOLD_DISPATCH(LossLoops, loss_loops)
TRIFOLD_DISPATCH(OptimizerLoops, optimizer_loops)
TRIFOLD_DISPATCH(PoolingLoops, pooling_loops)
