// Copies and fills of one or two dimensions, between device, pinned and pageable memory, as the exported functions and
// the symbol functions need them.
#pragma once

#include "cudart/api_call.h"

namespace gpusim {

struct CopyArgs {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t destination_pitch = 0;  // bytes from row to row; unused for one row
  std::size_t source_pitch = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  cudaStream_t stream = nullptr;
  bool asynchronous = false;
};
cudaError_t copy(ApiCall& call, const CopyArgs& args);

struct FillArgs {
  void* destination = nullptr;
  int value = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;
  cudaStream_t stream = nullptr;
};
cudaError_t fill(ApiCall& call, const FillArgs& args);

}  // namespace gpusim
