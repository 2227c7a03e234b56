#include "insight/metrics/progress_format.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/terminal_color.h"

namespace trifold {
namespace {

constexpr std::size_t kMinBarColumns = 12;  // brackets included
constexpr std::size_t kMaxBarColumns = 42;
constexpr std::string_view kGap = "  ";

struct Figure {
  std::string text;
  int importance = 0;  // the least goes first when columns are short
};

std::string position(const ProgressState& state) {
  const auto digits = fmt::formatted_size("{}", state.steps);
  return fmt::format("epoch {}/{}  {:>{}}/{}", state.epoch, state.epochs, state.step, digits, state.steps);
}

std::string format_rate(double images_per_s) {
  return fmt::format("{:.{}f} images/s", images_per_s, images_per_s < 100 ? 1 : 0);
}

// In the order in which they are shown.
std::vector<Figure> figures_of(const ProgressState& state) {
  std::vector<Figure> figures;
  if (state.images_per_s > 0) figures.push_back({format_rate(state.images_per_s), 3});
  if (state.loss) figures.push_back({fmt::format("loss {:.4f}", *state.loss), 5});
  if (state.accuracy) figures.push_back({fmt::format("accuracy {:.2f} %", 100 * *state.accuracy), 2});
  if (state.images_left && state.images_per_s > 0) {
    const double left_s = static_cast<double>(*state.images_left) / state.images_per_s;
    figures.push_back({"ETA " + format_duration(left_s), 4});
  }
  if (state.input_wait_fraction > kInputBoundFraction) {
    figures.push_back({fmt::format("input-bound {:.0f} %", 100 * state.input_wait_fraction), 1});
  }
  return figures;
}

std::size_t columns_of(const std::vector<Figure>& figures) {
  std::size_t columns = 0;
  for (const Figure& figure : figures) columns += kGap.size() + figure.text.size();
  return columns;
}

std::string bar_of(const ProgressState& state, std::size_t columns) {
  const std::size_t cells = columns - 2;
  const double done = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
  const auto filled = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * static_cast<double>(cells));
  std::string bar(filled, '=');
  if (filled > 0 && filled < cells) bar.back() = '>';
  bar.resize(cells, ' ');
  return '[' + bar + ']';
}

}  // namespace

std::string format_duration(double seconds) {
  constexpr double kHundredYears_s = 100.0 * 365 * 86400;
  if (!(seconds >= 0) || seconds > kHundredYears_s) return "?";
  const std::int64_t total = std::llround(seconds);
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  if (total < 86400) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{} d {:02} h", total / 86400, total / 3600 % 24);
}

std::string format_progress_bar(const ProgressState& state, int columns) {
  const auto width = static_cast<std::size_t>(std::max(columns, 0));
  std::string text = position(state);
  std::vector<Figure> figures = figures_of(state);
  const std::size_t bar_minimum = kMinBarColumns + 1;
  while (!figures.empty() && text.size() + bar_minimum + columns_of(figures) > width) {
    figures.erase(std::min_element(figures.begin(), figures.end(),
                                   [](const Figure& a, const Figure& b) { return a.importance < b.importance; }));
  }
  const std::size_t taken = text.size() + columns_of(figures);
  if (taken + bar_minimum <= width) {
    text += ' ' + bar_of(state, std::min(width - taken - 1, kMaxBarColumns));
  }
  for (const Figure& figure : figures) text.append(kGap).append(figure.text);
  text.resize(std::min(text.size(), width));
  return text;
}

std::string format_loss(double loss) {
  return loss < 1e4 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3e}", loss);
}

std::string format_epoch_line(const EpochFigures& result, bool colors) {
  std::string text =
      fmt::format("epoch {:>3}/{}  loss {}", result.epoch, result.epochs, format_loss(result.train_loss));
  if (result.train_accuracy) text += fmt::format("  accuracy {:.2f} %", 100 * *result.train_accuracy);
  if (result.test_loss) text += "  |  test loss " + format_loss(*result.test_loss);
  if (result.test_accuracy) {
    const bool is_best = result.best_test_accuracy && *result.test_accuracy >= *result.best_test_accuracy;
    text += "  " + paint(fmt::format("accuracy {:.2f} %", 100 * *result.test_accuracy),
                         is_best ? Tone::good : Tone::plain, colors);
  }
  return text + fmt::format("  |  {:.0f} images/s", result.images_per_s);
}

std::string format_progress_line(const ProgressState& state) {
  std::string text = position(state);
  for (const Figure& figure : figures_of(state)) text.append(kGap).append(figure.text);
  return text;
}

}  // namespace trifold
