// The op by which replicas agree on their gradients before an update: the job's plan.sync.
#pragma once

#include <cstdint>
#include <span>

#include "core/shape.h"
#include "kernels/op.h"
#include "parallel/data/gradient_sync.h"

namespace trifold {

// A trained tensor in the flat buffer of all gradients.
struct FlatTensor {
  std::int64_t begin = 0;  // element of the buffer
  Shape shape;
  std::int64_t elements = 0;  // in memory: with padding, where the layout has some
};

struct FlatGradients {
  int replicas = 1;
  std::int64_t elements = 0;  // of the buffer
  std::span<const FlatTensor> tensors = {};
};

// In: this replica's gradients; out: what all of them agree on. A sum in fp32 where `sync` names nothing else.
OpPtr make_gradient_exchange(const GradientSync& sync, const FlatGradients& gradients);

}  // namespace trifold
