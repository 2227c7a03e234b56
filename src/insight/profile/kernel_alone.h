// How fast the kernels of a step are without the step: each is run by itself, on memory of its own, with its caches as
// a step leaves them. A time in a step that differs has another reason than the kernel: other ranks, other programs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/executor/executable.h"

namespace trifold {

class KernelsAlone {
 public:
  explicit KernelsAlone(int threads) : threads_(threads) {}

  // Runs every convolution and matrix product of the program a few times more. Kernels that are the same (op, tensors,
  // implementation) are run as one.
  void run(Executable& program);

  // Of one call, the median of its runs so far; 0 of a node that is no product.
  double seconds(const Program& program, std::size_t node) const;

 private:
  int threads_;
  std::map<std::string, std::vector<double>> runs_s_;
};

}  // namespace trifold
