// The semi-opaque descriptors of cuBLASLt: our fields laid into the memory the header defines, so that those a program
// keeps on its own stack work too. Each begins with a tag, by which a destroyed or unset one is known.
#pragma once

#include <cstdint>

#include <cublasLt.h>

namespace gpusim {

enum class LtTag : std::uint32_t {
  none = 0,
  layout = 0x6c61796f,
  matmul = 0x6d61746d,
  preference = 0x70726566,
  algorithm = 0x616c676f,
};

struct LtLayout {
  static constexpr LtTag kTag = LtTag::layout;
  LtTag tag = kTag;
  std::int32_t type = CUDA_R_32F;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::int64_t leading = 0;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::int32_t batches = 1;
  std::int64_t batch_stride = 0;
  std::int64_t plane_offset = 0;
};
static_assert(sizeof(LtLayout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

struct LtMatmulDesc {
  static constexpr LtTag kTag = LtTag::matmul;
  LtTag tag = kTag;
  std::int32_t compute_type = CUBLAS_COMPUTE_32F;
  std::int32_t scale_type = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transa = CUBLAS_OP_N;
  std::int32_t transb = CUBLAS_OP_N;
  std::int32_t transc = CUBLAS_OP_N;
  std::int32_t fill_mode = CUBLAS_FILL_MODE_FULL;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1;  // d's
  void* bias = nullptr;
  std::int64_t bias_batch_stride = 0;
  std::int32_t multiprocessors = 0;
};
static_assert(sizeof(LtMatmulDesc) <= sizeof(cublasLtMatmulDescOpaque_t));

struct LtPreference {
  static constexpr LtTag kTag = LtTag::preference;
  LtTag tag = kTag;
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint64_t max_workspace_bytes = 0;
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_bytes[4] = {256, 256, 256, 256};  // of a, b, c, d
  float max_waves = 0;
};
static_assert(sizeof(LtPreference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

enum class LtAlgorithm : std::uint32_t { one_pass, split_k };

struct LtAlgo {
  static constexpr LtTag kTag = LtTag::algorithm;
  LtTag tag = kTag;
  LtAlgorithm algorithm = LtAlgorithm::one_pass;
  std::uint64_t problem = 0;  // of the types, orders, transpositions and epilogue it was chosen for
  std::uint32_t alignment_bytes[4] = {};
};
static_assert(sizeof(LtAlgo) <= sizeof(cublasLtMatmulAlgo_t));

// The descriptor behind a handle; null when it is null, destroyed, or of another kind.
template <class Descriptor, class Opaque>
Descriptor* descriptor(Opaque* opaque) {
  auto* found = reinterpret_cast<Descriptor*>(opaque);
  return found && found->tag == Descriptor::kTag ? found : nullptr;
}
template <class Descriptor, class Opaque>
const Descriptor* descriptor(const Opaque* opaque) {
  return descriptor<Descriptor>(const_cast<Opaque*>(opaque));
}

}  // namespace gpusim
