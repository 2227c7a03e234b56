#include "parallel/data/gradient_exchange.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/collective.h"
#include "kernels/ops/gradient_exchange.h"

namespace trifold {
namespace {

OpPtr sum_in_16_bits(const GradientSync& sync, const FlatGradients& gradients) {
  HalfAllReduce op;
  op.ranks = gradients.replicas;
  op.wire = sync.wire;
  return std::make_shared<const HalfAllReduce>(op);
}

OpPtr largest_of_each(const GradientSync& sync, const FlatGradients& gradients) {
  TopKAllReduce op;
  op.ranks = gradients.replicas;
  op.keep = std::max<std::int64_t>(1, std::llround(sync.keep * static_cast<double>(gradients.elements)));
  return std::make_shared<const TopKAllReduce>(op);
}

// Tensors as matrices, where the two thin ones are smaller than the tensor.
OpPtr product_of_thin_matrices(const GradientSync& sync, const FlatGradients& gradients) {
  LowRankAllReduce op;
  op.ranks = gradients.replicas;
  op.rank = sync.rank;
  for (const FlatTensor& tensor : gradients.tensors) {
    if (tensor.shape.rank() < 2) continue;
    const std::int64_t rows = tensor.shape[0];
    const std::int64_t columns = tensor.elements / rows;
    if (tensor.elements % rows != 0 || (rows + columns) * op.rank >= tensor.elements) continue;
    op.matrices.push_back({tensor.begin, rows, columns});
  }
  return std::make_shared<const LowRankAllReduce>(op);
}

}  // namespace

OpPtr make_gradient_exchange(const GradientSync& sync, const FlatGradients& gradients) {
  switch (sync.kind) {
    case GradientSync::Kind::topk:
      return largest_of_each(sync, gradients);
    case GradientSync::Kind::powersgd:
      return product_of_thin_matrices(sync, gradients);
    case GradientSync::Kind::allreduce:
      if (sync.wire != DType::f32) return sum_in_16_bits(sync, gradients);
      break;
    case GradientSync::Kind::local_sgd:
    case GradientSync::Kind::servers:
      break;
  }
  return std::make_shared<const AllReduce>();
}

}  // namespace trifold
