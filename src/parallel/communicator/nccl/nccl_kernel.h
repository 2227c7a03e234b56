// What the kernels that exchange along an axis of the mesh share.
#pragma once

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/ops/collective.h"
#include "parallel/communicator/nccl/nccl_groups.h"

namespace trifold::cuda {

class NcclKernel : public CudaKernel {
 public:
  NcclKernel(const KernelRequest& request, Axis axis) : CudaKernel(request), ranks_(request.ranks), axis_(axis) {}

  std::string implementation() const override { return fmt::format("nccl {}", name_of(axis_)); }

 protected:
  NcclGroups& groups() const { return nccl_groups(ranks_); }
  NcclLink& link() const { return groups().along(axis_); }
  int rank() const { return ranks_->place().along(axis_); }

 private:
  const RankGroups* ranks_;
  Axis axis_;
};

}  // namespace trifold::cuda
