#include "kernels/ops/gradient_exchange.h"

namespace trifold {

double LowRankAllReduce::sent_bytes(double in, double, double among) const {
  double plain = in / sizeof(float);
  double thin = 0;
  for (const Matrix& matrix : matrices) {
    plain -= static_cast<double>(matrix.rows * matrix.columns);
    thin += static_cast<double>((matrix.rows + matrix.columns) * rank);
  }
  return 2 * (among - 1) / among * (plain + thin) * sizeof(float);
}

}  // namespace trifold
