// One named figure of a step: what the metrics log, TensorBoard and the best-so-far table hold.
#pragma once

#include <string_view>

namespace trifold {

struct Metric {
  std::string_view name;  // "loss", "images_per_s"
  double value = 0;
};

}  // namespace trifold
