#include "insight/live/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace trifold {
namespace {

using Levels = std::array<const char*, 8>;
constexpr Levels kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr Levels kSigns = {"_", ".", "-", "=", "+", "*", "%", "#"};

// NaN of values none of which is finite.
double finite_mean(std::span<const double> values) {
  double sum = 0;
  int count = 0;
  for (const double value : values)
    if (std::isfinite(value)) {
      sum += value;
      ++count;
    }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / count;
}

}  // namespace

std::string sparkline(std::span<const double> values, int columns, Glyphs glyphs) {
  const std::size_t bars = std::min(values.size(), static_cast<std::size_t>(std::max(columns, 0)));
  std::vector<double> means;
  means.reserve(bars);
  for (std::size_t i = 0; i < bars; ++i) {
    const std::size_t begin = i * values.size() / bars;
    means.push_back(finite_mean(values.subspan(begin, (i + 1) * values.size() / bars - begin)));
  }
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const double mean : means)
    if (!std::isnan(mean)) {
      least = std::min(least, mean);
      most = std::max(most, mean);
    }
  const Levels& levels = glyphs == Glyphs::unicode ? kBlocks : kSigns;
  std::string text;
  for (const double mean : means) {
    if (std::isnan(mean)) {
      text += ' ';
      continue;
    }
    // Where all are the same none is low or high.
    const double height = most > least ? (mean - least) / (most - least) : 0.5;
    text += levels[std::min(levels.size() - 1, static_cast<std::size_t>(height * static_cast<double>(levels.size())))];
  }
  return text;
}

std::string filled_bar(double done, int columns, Glyphs glyphs) {
  const auto filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * std::max(columns, 0));
  std::string text;
  for (int i = 0; i < columns; ++i)
    text += glyphs == Glyphs::unicode ? (i < filled ? "█" : "░") : (i < filled ? "#" : ".");
  return text;
}

}  // namespace trifold
