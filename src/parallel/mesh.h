// The ranks of a job as a grid of data replicas, pipeline stages and tensor parts. Neighbours in the tensor axis have
// neighbouring ranks, since they talk most.
#pragma once

#include <string>

#include "kernels/ops/collective.h"

namespace trifold {

struct Mesh {
  int data = 1;
  int pipeline = 1;
  int tensor = 1;

  int size() const { return data * pipeline * tensor; }
  int size(Axis axis) const { return axis == Axis::data ? data : axis == Axis::tensor ? tensor : pipeline; }
  bool operator==(const Mesh&) const = default;
};

std::string to_string(const Mesh& mesh);  // "dp=2 pp=2"; "single" for one rank

// A rank's place along each axis.
struct MeshPlace {
  int data = 0;
  int pipeline = 0;
  int tensor = 0;

  int along(Axis axis) const { return axis == Axis::data ? data : axis == Axis::tensor ? tensor : pipeline; }
  bool operator==(const MeshPlace&) const = default;
};

MeshPlace place_of(const Mesh& mesh, int rank);
int rank_of(const Mesh& mesh, const MeshPlace& place);

}  // namespace trifold
