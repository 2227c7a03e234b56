// cublasLtCreate, the heuristic and the product.
#include <cstdlib>
#include <cstring>

#include "cublas/lt_problem.h"
#include "cublas/status_names.h"

namespace gpusim {
namespace {

constexpr Address kWorkspaceAlignment = 16;
constexpr std::uint32_t kVectorBytes = 16;  // no kernel of the real library wants more, whatever it was promised

BlasHandle* of(cublasLtHandle_t handle) {
  return reinterpret_cast<BlasHandle*>(handle);
}

// GPUSIM_STRICT=1: addresses have to keep the alignment that was promised to the heuristic, to the letter.
bool is_strict() {
  const char* strict = std::getenv("GPUSIM_STRICT");
  return strict && *strict == '1';
}

cublasStatus_t check_algo(const std::string& function, const LtProblem& problem, const LtAlgo* algo) {
  if (!algo) return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the algorithm was never initialised");
  if (algo->problem != problem.signature) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  function + ": the algorithm was chosen for other types, orders, transpositions or another epilogue");
  }
  return CUBLAS_STATUS_SUCCESS;
}

struct LtPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
};

cublasStatus_t check_pointers(const std::string& function, const Matmul& matmul, const LtPointers& pointers,
                              const LtAlgo* algo, bool c_used) {
  struct Each {
    const char* name;
    const void* pointer;
    Element type;
    std::uint32_t promised;
  };
  const auto promised = [&](int index) { return algo ? algo->alignment_bytes[index] : 1; };
  const Each all[] = {{"A", pointers.a, matmul.a.type, promised(0)},
                      {"B", pointers.b, matmul.b.type, promised(1)},
                      {"C", c_used ? pointers.c : pointers.d, matmul.c.type, promised(2)},
                      {"D", pointers.d, matmul.d.type, promised(3)}};
  for (const auto& each : all) {
    if (!each.pointer) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": matrix " + each.name + " is a null pointer");
    }
    if (const auto status = check_alignment(function, each.name, each.pointer, each.type)) return status;
    const std::uint32_t wanted = is_strict() ? each.promised : std::min(each.promised, kVectorBytes);
    if (reinterpret_cast<Address>(each.pointer) % wanted != 0) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE,
                    function + ": matrix " + each.name + " at " + hex(reinterpret_cast<Address>(each.pointer)) +
                        " is not aligned to " + std::to_string(wanted) +
                        " bytes, as the heuristic was told (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_" + each.name +
                        "_BYTES, 256 unless set)");
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t take_workspace(const std::string& function, void* workspace, std::size_t bytes, std::size_t needed,
                              Matmul& matmul) {
  if (needed > bytes) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the algorithm needs " + std::to_string(needed) +
                                                   " bytes of workspace, " + std::to_string(bytes) + " were given");
  }
  if (bytes != 0 && !workspace) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": a null workspace of " + std::to_string(bytes) + " bytes");
  }
  if (reinterpret_cast<Address>(workspace) % kWorkspaceAlignment != 0) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the workspace is not aligned to 16 bytes");
  }
  matmul.workspace = workspace;
  matmul.workspace_bytes = needed;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_result(const LtProblem& problem, LtAlgorithm algorithm, const std::uint32_t (&alignment_bytes)[4],
                          cublasLtMatmulHeuristicResult_t& result) {
  LtAlgo algo;
  algo.algorithm = algorithm;
  algo.problem = problem.signature;
  std::memcpy(algo.alignment_bytes, alignment_bytes, sizeof algo.alignment_bytes);
  std::memset(static_cast<void*>(&result), 0, sizeof result);
  std::memcpy(&result.algo, &algo, sizeof algo);
  result.workspaceSize = workspace_bytes(problem, algorithm);
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!handle) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasLtCreate: the result pointer is null");
  auto* made = new BlasHandle;
  made->device = current_device();
  *handle = reinterpret_cast<cublasLtHandle_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (const auto status = check_handle(of(handle), "cublasLtDestroy")) return status;
  of(handle)->state = BlasHandle::kDestroyed;
  return CUBLAS_STATUS_SUCCESS;
}

GPUSIM_EXPORT std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
GPUSIM_EXPORT const char* cublasLtGetStatusName(cublasStatus_t status) {
  return name_of(status);
}
GPUSIM_EXPORT const char* cublasLtGetStatusString(cublasStatus_t status) {
  return description_of(status);
}

// Best first: for a long k the product that splits it and needs workspace, if there is enough.
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                            cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                            cublasLtMatmulPreference_t preference, int requested,
                                                            cublasLtMatmulHeuristicResult_t results[], int* returned) {
  const std::string function = "cublasLtMatmulAlgoGetHeuristic";
  if (const auto status = check_handle(of(handle), function.c_str())) return status;
  if (requested <= 0 || !results || !returned) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": no room for a result");
  }
  *returned = 0;
  const auto* wanted = descriptor<LtPreference>(preference);
  if (!wanted) return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the preference is null, unset or destroyed");
  if (wanted->search_mode != CUBLASLT_SEARCH_BEST_FIT) {
    return not_simulated(function + ": search mode " + std::to_string(wanted->search_mode));
  }
  LtProblem problem;
  if (const auto status = describe(function, {desc, a, b, c, d}, problem)) return status;
  const auto& matmul = problem.matmul;
  const bool long_k = matmul.k >= 4 * std::max(matmul.m, matmul.n);
  LtAlgorithm order[] = {LtAlgorithm::one_pass, LtAlgorithm::split_k};
  if (long_k) std::swap(order[0], order[1]);
  for (const auto algorithm : order) {
    if (*returned == requested) break;
    if (workspace_bytes(problem, algorithm) > wanted->max_workspace_bytes) continue;
    set_result(problem, algorithm, wanted->alignment_bytes, results[(*returned)++]);
  }
  return *returned > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

GPUSIM_EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     const cublasLtMatmulAlgo_t* algo,
                                                     cublasLtMatmulHeuristicResult_t* result) {
  const std::string function = "cublasLtMatmulAlgoCheck";
  if (const auto status = check_handle(of(handle), function.c_str())) return status;
  if (!result) return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": no room for a result");
  LtProblem problem;
  if (const auto status = describe(function, {desc, a, b, c, d}, problem)) return status;
  const auto* chosen = descriptor<LtAlgo>(algo);
  if (const auto status = check_algo(function, problem, chosen)) return status;
  const LtAlgo copy = *chosen;  // the caller may pass result->algo
  return set_result(problem, copy.algorithm, copy.alignment_bytes, *result);
}

GPUSIM_EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                                            const void* A, cublasLtMatrixLayout_t a, const void* B,
                                            cublasLtMatrixLayout_t b, const void* beta, const void* C,
                                            cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                                            const cublasLtMatmulAlgo_t* algo, void* workspace,
                                            std::size_t workspace_size, cudaStream_t stream) {
  const std::string function = "cublasLtMatmul";
  if (const auto status = check_handle(of(handle), function.c_str())) return status;
  LtProblem problem;
  if (const auto status = describe(function, {desc, a, b, c, d}, problem)) return status;
  auto& matmul = problem.matmul;
  const auto* chosen = descriptor<LtAlgo>(algo);
  if (algo) {
    if (const auto status = check_algo(function, problem, chosen)) return status;
  }
  const bool on_device = descriptor<LtMatmulDesc>(desc)->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  if (const auto status = take_scalar(function, "alpha", alpha, on_device, matmul.alpha)) return status;
  if (const auto status = take_scalar(function, "beta", beta, on_device, matmul.beta)) return status;
  const bool c_used = on_device || matmul.beta.value != 0;
  if (const auto status = check_pointers(function, matmul, {A, B, C, D}, chosen, c_used)) return status;
  if (C == D && c_used &&
      (matmul.c.row_stride != matmul.d.row_stride || matmul.c.col_stride != matmul.d.col_stride ||
       matmul.c.batch_stride != matmul.d.batch_stride)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": C and D are one matrix but have different layouts");
  }
  if (matmul.epilogue.bias_use != BiasUse::none && !matmul.epilogue.bias) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": the epilogue has a bias, whose pointer was not set");
  }
  const std::size_t needed = chosen ? workspace_bytes(problem, chosen->algorithm) : 0;
  if (const auto status = take_workspace(function, workspace, workspace_size, needed, matmul)) return status;
  matmul.a.data = const_cast<void*>(A);
  matmul.b.data = const_cast<void*>(B);
  matmul.c.data = const_cast<void*>(C);
  matmul.d.data = D;
  return enqueue_matmul(*of(handle), stream, std::move(matmul));
}
