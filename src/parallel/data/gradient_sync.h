// How replicas agree on an update: the job's plan.sync.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace trifold {

struct GradientSync {
  enum class Kind {
    allreduce,  // gradients are added up in every step
    topk,       // of each replica's, the largest
    powersgd,   // of each replica's, a product of thin matrices
    local_sgd,  // replicas update on their own, and average their models every `period` steps
    servers,    // parameter servers update (PlanConfig::servers); the replicas within a worker add up as in allreduce
  } kind = Kind::allreduce;
  DType wire = DType::f32;  // allreduce: what numbers are sent as
  double keep = 0.01;       // topk: share of the gradients
  std::int64_t rank = 2;    // powersgd
  std::int64_t period = 8;  // local_sgd

  bool local() const { return kind == Kind::local_sgd; }
  bool exact() const { return kind == Kind::allreduce && wire == DType::f32; }
  bool operator==(const GradientSync&) const = default;
};

}  // namespace trifold
