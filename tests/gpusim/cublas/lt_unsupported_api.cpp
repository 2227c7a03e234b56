// The functions of cuBLASLt that the simulator does not have. A call is reported by name; none is guessed. The
// library's header is not included, so that they need no parameters.
#include "engine/library.h"

namespace {

constexpr int kNotSupported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED

int unsupported(const char* function) {
  gpusim::report(gpusim::Finding::unsupported, function);
  return kNotSupported;
}

}  // namespace

#define GPUSIM_NO(function)        \
  GPUSIM_EXPORT int function() {   \
    return unsupported(#function); \
  }

// clang-format off
GPUSIM_NO(cublasLtEmulationDescCreate) GPUSIM_NO(cublasLtEmulationDescDestroy)
GPUSIM_NO(cublasLtEmulationDescGetAttribute) GPUSIM_NO(cublasLtEmulationDescInit_internal)
GPUSIM_NO(cublasLtEmulationDescSetAttribute) GPUSIM_NO(cublasLtGetCudartVersion) GPUSIM_NO(cublasLtGetProperty)
GPUSIM_NO(cublasLtHeuristicsCacheGetCapacity) GPUSIM_NO(cublasLtHeuristicsCacheSetCapacity)
GPUSIM_NO(cublasLtLoggerForceDisable) GPUSIM_NO(cublasLtLoggerOpenFile) GPUSIM_NO(cublasLtLoggerSetCallback)
GPUSIM_NO(cublasLtLoggerSetFile) GPUSIM_NO(cublasLtLoggerSetLevel) GPUSIM_NO(cublasLtLoggerSetMask)
GPUSIM_NO(cublasLtMatmulAlgoCapGetAttribute) GPUSIM_NO(cublasLtMatmulAlgoConfigGetAttribute)
GPUSIM_NO(cublasLtMatmulAlgoConfigSetAttribute) GPUSIM_NO(cublasLtMatmulAlgoGetIds) GPUSIM_NO(cublasLtMatmulAlgoInit)
GPUSIM_NO(cublasLtMatrixTransform) GPUSIM_NO(cublasLtMatrixTransformDescCreate)
GPUSIM_NO(cublasLtMatrixTransformDescDestroy) GPUSIM_NO(cublasLtMatrixTransformDescGetAttribute)
GPUSIM_NO(cublasLtMatrixTransformDescInit_internal) GPUSIM_NO(cublasLtMatrixTransformDescSetAttribute)
    // clang-format on
