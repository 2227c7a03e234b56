// The functions of cuBLAS that the simulator does not have. A call is reported by name; none is guessed. The library's
// header is not included, so that they need no parameters.
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
#define GPUSIM_NO2(function) /* with its twin for 64-bit sizes */ \
  GPUSIM_NO(function)                                             \
  GPUSIM_NO(function##_64)

// clang-format off
GPUSIM_NO2(cublasAsumEx) GPUSIM_NO2(cublasAxpyEx) GPUSIM_NO2(cublasCaxpy_v2) GPUSIM_NO2(cublasCcopy_v2)
GPUSIM_NO2(cublasCdgmm) GPUSIM_NO2(cublasCdotc_v2) GPUSIM_NO2(cublasCdotu_v2) GPUSIM_NO2(cublasCgbmv_v2)
GPUSIM_NO2(cublasCgeam) GPUSIM_NO2(cublasCgemm3m) GPUSIM_NO2(cublasCgemm3mBatched) GPUSIM_NO2(cublasCgemm3mEx)
GPUSIM_NO2(cublasCgemm3mStridedBatched) GPUSIM_NO2(cublasCgemmBatched) GPUSIM_NO2(cublasCgemmEx)
GPUSIM_NO2(cublasCgemmStridedBatched) GPUSIM_NO2(cublasCgemm_v2) GPUSIM_NO2(cublasCgemvBatched)
GPUSIM_NO2(cublasCgemvStridedBatched) GPUSIM_NO2(cublasCgemv_v2) GPUSIM_NO2(cublasCgerc_v2) GPUSIM_NO2(cublasCgeru_v2)
GPUSIM_NO2(cublasChbmv_v2) GPUSIM_NO2(cublasChemm_v2) GPUSIM_NO2(cublasChemv_v2) GPUSIM_NO2(cublasCher2_v2)
GPUSIM_NO2(cublasCher2k_v2) GPUSIM_NO2(cublasCher_v2) GPUSIM_NO2(cublasCherk3mEx) GPUSIM_NO2(cublasCherkEx)
GPUSIM_NO2(cublasCherk_v2) GPUSIM_NO2(cublasCherkx) GPUSIM_NO2(cublasChpmv_v2) GPUSIM_NO2(cublasChpr2_v2)
GPUSIM_NO2(cublasChpr_v2) GPUSIM_NO2(cublasCopyEx) GPUSIM_NO2(cublasCrot_v2) GPUSIM_NO2(cublasCscal_v2)
GPUSIM_NO2(cublasCsrot_v2) GPUSIM_NO2(cublasCsscal_v2) GPUSIM_NO2(cublasCswap_v2) GPUSIM_NO2(cublasCsymm_v2)
GPUSIM_NO2(cublasCsymv_v2) GPUSIM_NO2(cublasCsyr2_v2) GPUSIM_NO2(cublasCsyr2k_v2) GPUSIM_NO2(cublasCsyr_v2)
GPUSIM_NO2(cublasCsyrk3mEx) GPUSIM_NO2(cublasCsyrkEx) GPUSIM_NO2(cublasCsyrk_v2) GPUSIM_NO2(cublasCsyrkx)
GPUSIM_NO2(cublasCtbmv_v2) GPUSIM_NO2(cublasCtbsv_v2) GPUSIM_NO2(cublasCtpmv_v2) GPUSIM_NO2(cublasCtpsv_v2)
GPUSIM_NO2(cublasCtrmm_v2) GPUSIM_NO2(cublasCtrmv_v2) GPUSIM_NO2(cublasCtrsmBatched) GPUSIM_NO2(cublasCtrsm_v2)
GPUSIM_NO2(cublasCtrsv_v2) GPUSIM_NO2(cublasDasum_v2) GPUSIM_NO2(cublasDaxpy_v2) GPUSIM_NO2(cublasDcopy_v2)
GPUSIM_NO2(cublasDdgmm) GPUSIM_NO2(cublasDdot_v2) GPUSIM_NO2(cublasDgbmv_v2) GPUSIM_NO2(cublasDgeam)
GPUSIM_NO2(cublasDgemmBatched) GPUSIM_NO2(cublasDgemmGroupedBatched) GPUSIM_NO2(cublasDgemmStridedBatched)
GPUSIM_NO2(cublasDgemm_v2) GPUSIM_NO2(cublasDgemvBatched) GPUSIM_NO2(cublasDgemvStridedBatched)
GPUSIM_NO2(cublasDgemv_v2) GPUSIM_NO2(cublasDger_v2) GPUSIM_NO2(cublasDnrm2_v2) GPUSIM_NO2(cublasDotEx)
GPUSIM_NO2(cublasDotcEx) GPUSIM_NO2(cublasDrot_v2) GPUSIM_NO2(cublasDrotm_v2) GPUSIM_NO2(cublasDsbmv_v2)
GPUSIM_NO2(cublasDscal_v2) GPUSIM_NO2(cublasDspmv_v2) GPUSIM_NO2(cublasDspr2_v2) GPUSIM_NO2(cublasDspr_v2)
GPUSIM_NO2(cublasDswap_v2) GPUSIM_NO2(cublasDsymm_v2) GPUSIM_NO2(cublasDsymv_v2) GPUSIM_NO2(cublasDsyr2_v2)
GPUSIM_NO2(cublasDsyr2k_v2) GPUSIM_NO2(cublasDsyr_v2) GPUSIM_NO2(cublasDsyrk_v2) GPUSIM_NO2(cublasDsyrkx)
GPUSIM_NO2(cublasDtbmv_v2) GPUSIM_NO2(cublasDtbsv_v2) GPUSIM_NO2(cublasDtpmv_v2) GPUSIM_NO2(cublasDtpsv_v2)
GPUSIM_NO2(cublasDtrmm_v2) GPUSIM_NO2(cublasDtrmv_v2) GPUSIM_NO2(cublasDtrsmBatched) GPUSIM_NO2(cublasDtrsm_v2)
GPUSIM_NO2(cublasDtrsv_v2) GPUSIM_NO2(cublasDzasum_v2) GPUSIM_NO2(cublasDznrm2_v2) GPUSIM_NO2(cublasGemmBatchedEx)
GPUSIM_NO2(cublasGemmGroupedBatchedEx) GPUSIM_NO2(cublasGetMatrix) GPUSIM_NO2(cublasGetMatrixAsync)
GPUSIM_NO2(cublasGetVector) GPUSIM_NO2(cublasGetVectorAsync) GPUSIM_NO2(cublasHSHgemvBatched)
GPUSIM_NO2(cublasHSHgemvStridedBatched) GPUSIM_NO2(cublasHSSgemvBatched) GPUSIM_NO2(cublasHSSgemvStridedBatched)
GPUSIM_NO2(cublasHgemm) GPUSIM_NO2(cublasHgemmBatched) GPUSIM_NO2(cublasHgemmStridedBatched) GPUSIM_NO2(cublasIamaxEx)
GPUSIM_NO2(cublasIaminEx) GPUSIM_NO2(cublasIcamax_v2) GPUSIM_NO2(cublasIcamin_v2) GPUSIM_NO2(cublasIdamax_v2)
GPUSIM_NO2(cublasIdamin_v2) GPUSIM_NO2(cublasIsamax_v2) GPUSIM_NO2(cublasIsamin_v2) GPUSIM_NO2(cublasIzamax_v2)
GPUSIM_NO2(cublasIzamin_v2) GPUSIM_NO2(cublasNrm2Ex) GPUSIM_NO2(cublasRotEx) GPUSIM_NO2(cublasRotmEx)
GPUSIM_NO2(cublasSasum_v2) GPUSIM_NO2(cublasSaxpy_v2) GPUSIM_NO2(cublasScalEx) GPUSIM_NO2(cublasScasum_v2)
GPUSIM_NO2(cublasScnrm2_v2) GPUSIM_NO2(cublasScopy_v2) GPUSIM_NO2(cublasSdgmm) GPUSIM_NO2(cublasSdot_v2)
GPUSIM_NO2(cublasSetMatrix) GPUSIM_NO2(cublasSetMatrixAsync) GPUSIM_NO2(cublasSetVector)
GPUSIM_NO2(cublasSetVectorAsync) GPUSIM_NO2(cublasSgbmv_v2) GPUSIM_NO2(cublasSgeam) GPUSIM_NO2(cublasSgemmBatched)
GPUSIM_NO2(cublasSgemmEx) GPUSIM_NO2(cublasSgemmGroupedBatched) GPUSIM_NO2(cublasSgemvBatched)
GPUSIM_NO2(cublasSgemvStridedBatched) GPUSIM_NO2(cublasSgemv_v2) GPUSIM_NO2(cublasSger_v2) GPUSIM_NO2(cublasSnrm2_v2)
GPUSIM_NO2(cublasSrot_v2) GPUSIM_NO2(cublasSrotm_v2) GPUSIM_NO2(cublasSsbmv_v2) GPUSIM_NO2(cublasSscal_v2)
GPUSIM_NO2(cublasSspmv_v2) GPUSIM_NO2(cublasSspr2_v2) GPUSIM_NO2(cublasSspr_v2) GPUSIM_NO2(cublasSswap_v2)
GPUSIM_NO2(cublasSsymm_v2) GPUSIM_NO2(cublasSsymv_v2) GPUSIM_NO2(cublasSsyr2_v2) GPUSIM_NO2(cublasSsyr2k_v2)
GPUSIM_NO2(cublasSsyr_v2) GPUSIM_NO2(cublasSsyrk_v2) GPUSIM_NO2(cublasSsyrkx) GPUSIM_NO2(cublasStbmv_v2)
GPUSIM_NO2(cublasStbsv_v2) GPUSIM_NO2(cublasStpmv_v2) GPUSIM_NO2(cublasStpsv_v2) GPUSIM_NO2(cublasStrmm_v2)
GPUSIM_NO2(cublasStrmv_v2) GPUSIM_NO2(cublasStrsmBatched) GPUSIM_NO2(cublasStrsm_v2) GPUSIM_NO2(cublasStrsv_v2)
GPUSIM_NO2(cublasSwapEx) GPUSIM_NO2(cublasTSSgemvBatched) GPUSIM_NO2(cublasTSSgemvStridedBatched)
GPUSIM_NO2(cublasTSTgemvBatched) GPUSIM_NO2(cublasTSTgemvStridedBatched) GPUSIM_NO2(cublasZaxpy_v2)
GPUSIM_NO2(cublasZcopy_v2) GPUSIM_NO2(cublasZdgmm) GPUSIM_NO2(cublasZdotc_v2) GPUSIM_NO2(cublasZdotu_v2)
GPUSIM_NO2(cublasZdrot_v2) GPUSIM_NO2(cublasZdscal_v2) GPUSIM_NO2(cublasZgbmv_v2) GPUSIM_NO2(cublasZgeam)
GPUSIM_NO2(cublasZgemm3m) GPUSIM_NO2(cublasZgemmBatched) GPUSIM_NO2(cublasZgemmStridedBatched)
GPUSIM_NO2(cublasZgemm_v2) GPUSIM_NO2(cublasZgemvBatched) GPUSIM_NO2(cublasZgemvStridedBatched)
GPUSIM_NO2(cublasZgemv_v2) GPUSIM_NO2(cublasZgerc_v2) GPUSIM_NO2(cublasZgeru_v2) GPUSIM_NO2(cublasZhbmv_v2)
GPUSIM_NO2(cublasZhemm_v2) GPUSIM_NO2(cublasZhemv_v2) GPUSIM_NO2(cublasZher2_v2) GPUSIM_NO2(cublasZher2k_v2)
GPUSIM_NO2(cublasZher_v2) GPUSIM_NO2(cublasZherk_v2) GPUSIM_NO2(cublasZherkx) GPUSIM_NO2(cublasZhpmv_v2)
GPUSIM_NO2(cublasZhpr2_v2) GPUSIM_NO2(cublasZhpr_v2) GPUSIM_NO2(cublasZrot_v2) GPUSIM_NO2(cublasZscal_v2)
GPUSIM_NO2(cublasZswap_v2) GPUSIM_NO2(cublasZsymm_v2) GPUSIM_NO2(cublasZsymv_v2) GPUSIM_NO2(cublasZsyr2_v2)
GPUSIM_NO2(cublasZsyr2k_v2) GPUSIM_NO2(cublasZsyr_v2) GPUSIM_NO2(cublasZsyrk_v2) GPUSIM_NO2(cublasZsyrkx)
GPUSIM_NO2(cublasZtbmv_v2) GPUSIM_NO2(cublasZtbsv_v2) GPUSIM_NO2(cublasZtpmv_v2) GPUSIM_NO2(cublasZtpsv_v2)
GPUSIM_NO2(cublasZtrmm_v2) GPUSIM_NO2(cublasZtrmv_v2) GPUSIM_NO2(cublasZtrsmBatched) GPUSIM_NO2(cublasZtrsm_v2)
GPUSIM_NO2(cublasZtrsv_v2)
GPUSIM_NO(cublasCgelsBatched) GPUSIM_NO(cublasCgeqrfBatched) GPUSIM_NO(cublasCgetrfBatched)
GPUSIM_NO(cublasCgetriBatched) GPUSIM_NO(cublasCgetrsBatched) GPUSIM_NO(cublasCmatinvBatched)
GPUSIM_NO(cublasCrotg_v2) GPUSIM_NO(cublasCtpttr) GPUSIM_NO(cublasCtrttp) GPUSIM_NO(cublasDgelsBatched)
GPUSIM_NO(cublasDgeqrfBatched) GPUSIM_NO(cublasDgetrfBatched) GPUSIM_NO(cublasDgetriBatched)
GPUSIM_NO(cublasDgetrsBatched) GPUSIM_NO(cublasDmatinvBatched) GPUSIM_NO(cublasDrotg_v2) GPUSIM_NO(cublasDrotmg_v2)
GPUSIM_NO(cublasDtpttr) GPUSIM_NO(cublasDtrttp) GPUSIM_NO(cublasGemmEx_64) GPUSIM_NO(cublasGemmStridedBatchedEx_64)
GPUSIM_NO(cublasGetCudartVersion) GPUSIM_NO(cublasGetEmulationSpecialValuesSupport)
GPUSIM_NO(cublasGetEmulationStrategy) GPUSIM_NO(cublasGetFixedPointEmulationMantissaBitCountPointer)
GPUSIM_NO(cublasGetFixedPointEmulationMantissaBitOffset) GPUSIM_NO(cublasGetFixedPointEmulationMantissaControl)
GPUSIM_NO(cublasGetFixedPointEmulationMaxMantissaBitCount) GPUSIM_NO(cublasGetLoggerCallback)
GPUSIM_NO(cublasGetSmCountTarget) GPUSIM_NO(cublasLoggerConfigure) GPUSIM_NO(cublasRotgEx) GPUSIM_NO(cublasRotmgEx)
GPUSIM_NO(cublasSetEmulationSpecialValuesSupport) GPUSIM_NO(cublasSetEmulationStrategy)
GPUSIM_NO(cublasSetFixedPointEmulationMantissaBitCountPointer)
GPUSIM_NO(cublasSetFixedPointEmulationMantissaBitOffset) GPUSIM_NO(cublasSetFixedPointEmulationMantissaControl)
GPUSIM_NO(cublasSetFixedPointEmulationMaxMantissaBitCount) GPUSIM_NO(cublasSetLoggerCallback)
GPUSIM_NO(cublasSetSmCountTarget) GPUSIM_NO(cublasSgelsBatched) GPUSIM_NO(cublasSgemmStridedBatched_64)
GPUSIM_NO(cublasSgemm_v2_64) GPUSIM_NO(cublasSgeqrfBatched) GPUSIM_NO(cublasSgetrfBatched)
GPUSIM_NO(cublasSgetriBatched) GPUSIM_NO(cublasSgetrsBatched) GPUSIM_NO(cublasSmatinvBatched)
GPUSIM_NO(cublasSrotg_v2) GPUSIM_NO(cublasSrotmg_v2) GPUSIM_NO(cublasStpttr) GPUSIM_NO(cublasStrttp)
GPUSIM_NO(cublasUint8gemmBias) GPUSIM_NO(cublasXerbla) GPUSIM_NO(cublasZgelsBatched) GPUSIM_NO(cublasZgeqrfBatched)
GPUSIM_NO(cublasZgetrfBatched) GPUSIM_NO(cublasZgetriBatched) GPUSIM_NO(cublasZgetrsBatched)
GPUSIM_NO(cublasZmatinvBatched) GPUSIM_NO(cublasZrotg_v2) GPUSIM_NO(cublasZtpttr) GPUSIM_NO(cublasZtrttp)
    // clang-format on
