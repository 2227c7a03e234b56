// How exact batch norm's statistics are on a backend, also where the mean is large against the deviation.
#pragma once

#include <iosfwd>

#include "support/op_comparison.h"

namespace trifold::test {

// whole: batch_norm.statistics of each group. replicas, rows: of four parts of one group, joined by batch_norm.join or
// batch_norm.join_rows.
enum class StatisticsPath { whole, replicas, rows };

struct StatisticsValues {
  TensorDesc x;              // [N, C, H, W] or [N, C], in the layout that the backend is given
  std::int64_t group = 1;    // samples
  double mean_over_std = 0;  // of every channel but the first, which is all zeros
  bool black_edges = false;  // the images' outer columns are zeros, as those of digits and of scanned pictures
};

// The largest relative errors over all groups and all channels but the first; the mean's is relative to the larger of
// mean and deviation.
struct StatisticsErrors {
  double mean = 0, istd = 0, running_var = 0;

  double largest() const;
};
std::ostream& operator<<(std::ostream& os, const StatisticsErrors& errors);

// Also expects the mean of zeros to be zero exactly, and their variance.
StatisticsErrors statistics_errors(const ComparedBackend& tested, const StatisticsValues& values,
                                   StatisticsPath path = StatisticsPath::whole);

// The largest error allowed: three float ulps. An ulp is about the largest error that the istd of PyTorch 2.15 has for
// contiguous images (torch.native_batch_norm on a CPU). Parts give their means as floats; joined, the rounding of these
// counts in proportion to how far apart the parts' means are.
double statistics_limit(const StatisticsValues& values, StatisticsPath path);

inline constexpr double kMeansOverStd[] = {0, 1, 10, 100, 1e3, 1e4};

}  // namespace trifold::test
