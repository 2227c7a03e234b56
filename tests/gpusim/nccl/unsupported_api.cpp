// The functions of NCCL that the simulator does not have. A call is reported by name; none is guessed. nccl.h is not
// included, so that they need no parameters.
#include <string>

#include "engine/library.h"

namespace {

constexpr int kInvalidUsage = 5;  // ncclInvalidUsage

int unsupported(const char* function) {
  gpusim::report(gpusim::Finding::unsupported, function);
  return kInvalidUsage;
}

}  // namespace

#define GPUSIM_UNSUPPORTED(function) \
  GPUSIM_EXPORT int function() {     \
    return unsupported(#function);   \
  }

GPUSIM_UNSUPPORTED(ncclAlltoAll)
GPUSIM_UNSUPPORTED(ncclCommDeregister)
GPUSIM_UNSUPPORTED(ncclCommInitRankScalable)
GPUSIM_UNSUPPORTED(ncclCommRegister)
GPUSIM_UNSUPPORTED(ncclCommRevoke)
GPUSIM_UNSUPPORTED(ncclCommShrink)
GPUSIM_UNSUPPORTED(ncclCommWindowDeregister)
GPUSIM_UNSUPPORTED(ncclCommWindowRegister)
GPUSIM_UNSUPPORTED(ncclGather)
GPUSIM_UNSUPPORTED(ncclGroupSimulateEnd)
GPUSIM_UNSUPPORTED(ncclMemAlloc)
GPUSIM_UNSUPPORTED(ncclMemFree)
GPUSIM_UNSUPPORTED(ncclRedOpCreatePreMulSum)
GPUSIM_UNSUPPORTED(ncclRedOpDestroy)
GPUSIM_UNSUPPORTED(ncclScatter)
