// Making, setting and reading the descriptors of cuBLASLt. An attribute the simulator does not follow may keep its
// default value only.
#include "cublas/lt_descriptors.h"

#include <cstring>
#include <new>
#include <string>

#include "cublas/handle.h"

namespace gpusim {
namespace {

struct Field {
  void* data = nullptr;  // null: not one the simulator follows
  std::size_t bytes = 0;
};
template <class Value>
Field field(Value& value) {
  return {&value, sizeof value};
}

Field field_of(LtLayout& layout, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return field(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return field(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return field(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return field(layout.cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return field(layout.leading);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return field(layout.batches);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return field(layout.batch_stride);
    case CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET:
      return field(layout.plane_offset);
    default:
      return {};
  }
}

Field field_of(LtMatmulDesc& desc, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return field(desc.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return field(desc.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return field(desc.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return field(desc.transa);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return field(desc.transb);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return field(desc.transc);
    case CUBLASLT_MATMUL_DESC_FILL_MODE:
      return field(desc.fill_mode);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return field(desc.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return field(desc.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return field(desc.bias_batch_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return field(desc.bias_type);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return field(desc.multiprocessors);
    default:
      return {};
  }
}

Field field_of(LtPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return field(preference.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return field(preference.max_workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return field(preference.reduction_schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return field(preference.alignment_bytes[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return field(preference.alignment_bytes[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return field(preference.alignment_bytes[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return field(preference.alignment_bytes[3]);
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
      return field(preference.max_waves);
    default:
      return {};
  }
}

cublasStatus_t wrong_size(const std::string& function, int attribute, std::size_t given, std::size_t wanted) {
  return refuse(CUBLAS_STATUS_INVALID_VALUE, function + ": attribute " + std::to_string(attribute) + " has " +
                                                 std::to_string(wanted) + " bytes, not " + std::to_string(given));
}

template <class Descriptor, class Opaque, class Attribute>
cublasStatus_t set_attribute(const char* function, Opaque* opaque, Attribute attribute, const void* value,
                             std::size_t bytes) {
  const std::string name = function;
  auto* desc = descriptor<Descriptor>(opaque);
  if (!desc) return refuse(CUBLAS_STATUS_INVALID_VALUE, name + ": the descriptor is null, unset or destroyed");
  if (!value) return refuse(CUBLAS_STATUS_INVALID_VALUE, name + ": the value pointer is null");
  const Field found = field_of(*desc, attribute);
  if (!found.data) return not_simulated(name + ": attribute " + std::to_string(static_cast<int>(attribute)));
  if (bytes != found.bytes) return wrong_size(name, static_cast<int>(attribute), bytes, found.bytes);
  std::memcpy(found.data, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Descriptor, class Opaque, class Attribute>
cublasStatus_t get_attribute(const char* function, Opaque* opaque, Attribute attribute, void* value, std::size_t bytes,
                             std::size_t* written) {
  const std::string name = function;
  auto* desc = descriptor<Descriptor>(opaque);
  if (!desc) return refuse(CUBLAS_STATUS_INVALID_VALUE, name + ": the descriptor is null, unset or destroyed");
  const Field found = field_of(*desc, attribute);
  if (!found.data) return not_simulated(name + ": attribute " + std::to_string(static_cast<int>(attribute)));
  if (written) *written = found.bytes;
  if (bytes == 0 && written) return CUBLAS_STATUS_SUCCESS;  // only asks for the size
  if (!value) return refuse(CUBLAS_STATUS_INVALID_VALUE, name + ": the value pointer is null");
  if (bytes != found.bytes) return wrong_size(name, static_cast<int>(attribute), bytes, found.bytes);
  std::memcpy(value, found.data, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Descriptor, class Opaque>
cublasStatus_t initialise(const char* function, Opaque* opaque, std::size_t bytes, const Descriptor& value) {
  if (!opaque) return refuse(CUBLAS_STATUS_INVALID_VALUE, std::string(function) + ": the descriptor is null");
  if (bytes < sizeof(Descriptor)) {
    return refuse(CUBLAS_STATUS_ALLOC_FAILED, std::string(function) + ": the space for the descriptor is too small");
  }
  std::memset(static_cast<void*>(opaque), 0, bytes);
  new (opaque) Descriptor(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Descriptor, class Opaque>
cublasStatus_t create(const char* function, Opaque** out, const Descriptor& value) {
  if (!out) return refuse(CUBLAS_STATUS_INVALID_VALUE, std::string(function) + ": the result pointer is null");
  *out = new Opaque;  // never freed: the tag shows a use after its end
  return initialise(function, *out, sizeof(Opaque), value);
}

template <class Descriptor, class Opaque>
cublasStatus_t destroy(const char* function, Opaque* opaque) {
  auto* desc = descriptor<Descriptor>(opaque);
  if (!desc) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, std::string(function) + ": the descriptor is null or destroyed");
  }
  desc->tag = LtTag::none;
  return CUBLAS_STATUS_SUCCESS;
}

LtLayout layout_of(cudaDataType type, std::uint64_t rows, std::uint64_t cols, std::int64_t leading) {
  LtLayout layout;
  layout.type = type;
  layout.rows = rows;
  layout.cols = cols;
  layout.leading = leading;
  return layout;
}

LtMatmulDesc matmul_of(cublasComputeType_t compute, cudaDataType_t scale) {
  LtMatmulDesc desc;
  desc.compute_type = compute;
  desc.scale_type = scale;
  return desc;
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t bytes,
                                                               cudaDataType type, std::uint64_t rows,
                                                               std::uint64_t cols, std::int64_t ld) {
  return initialise("cublasLtMatrixLayoutInit", layout, bytes, layout_of(type, rows, cols, ld));
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                                        std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  return create("cublasLtMatrixLayoutCreate", layout, layout_of(type, rows, cols, ld));
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<LtLayout>("cublasLtMatrixLayoutDestroy", layout);
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                              cublasLtMatrixLayoutAttribute_t attribute,
                                                              const void* value, std::size_t bytes) {
  return set_attribute<LtLayout>("cublasLtMatrixLayoutSetAttribute", layout, attribute, value, bytes);
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                              cublasLtMatrixLayoutAttribute_t attribute, void* value,
                                                              std::size_t bytes, std::size_t* written) {
  return get_attribute<LtLayout>("cublasLtMatrixLayoutGetAttribute", layout, attribute, value, bytes, written);
}

GPUSIM_EXPORT cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, std::size_t bytes,
                                                             cublasComputeType_t compute, cudaDataType_t scale) {
  return initialise("cublasLtMatmulDescInit", desc, bytes, matmul_of(compute, scale));
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                                      cudaDataType_t scale) {
  return create("cublasLtMatmulDescCreate", desc, matmul_of(compute, scale));
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return destroy<LtMatmulDesc>("cublasLtMatmulDescDestroy", desc);
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                            cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                            std::size_t bytes) {
  return set_attribute<LtMatmulDesc>("cublasLtMatmulDescSetAttribute", desc, attribute, value, bytes);
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                                                            cublasLtMatmulDescAttributes_t attribute, void* value,
                                                            std::size_t bytes, std::size_t* written) {
  return get_attribute<LtMatmulDesc>("cublasLtMatmulDescGetAttribute", desc, attribute, value, bytes, written);
}

GPUSIM_EXPORT cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                                   std::size_t bytes) {
  return initialise("cublasLtMatmulPreferenceInit", preference, bytes, LtPreference{});
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create("cublasLtMatmulPreferenceCreate", preference, LtPreference{});
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<LtPreference>("cublasLtMatmulPreferenceDestroy", preference);
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                                  cublasLtMatmulPreferenceAttributes_t attribute,
                                                                  const void* value, std::size_t bytes) {
  return set_attribute<LtPreference>("cublasLtMatmulPreferenceSetAttribute", preference, attribute, value, bytes);
}
GPUSIM_EXPORT cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                                  cublasLtMatmulPreferenceAttributes_t attribute,
                                                                  void* value, std::size_t bytes,
                                                                  std::size_t* written) {
  return get_attribute<LtPreference>("cublasLtMatmulPreferenceGetAttribute", preference, attribute, value, bytes,
                                     written);
}
