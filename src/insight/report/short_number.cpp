#include "insight/report/short_number.h"

#include <charconv>
#include <cmath>

namespace trifold {

double short_number(double value) {
  if (!std::isfinite(value)) return value;
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6);
  double result = 0;
  std::from_chars(text, written.ptr, result);
  return result;
}

}  // namespace trifold
