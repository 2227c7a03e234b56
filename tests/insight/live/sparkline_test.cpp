// Bars as text, with and without Unicode, and the memory of a long run's values.
#include "insight/live/sparkline.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/train/value_history.h"

namespace trifold {
namespace {

const std::vector<double> kRising = {0, 1, 2, 3, 4, 5, 6, 7};

TEST(Sparkline, EveryLevel) {
  EXPECT_EQ(sparkline(kRising, 8, Glyphs::unicode), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(kRising, 8, Glyphs::ascii), "_.-=+*%#");
}

TEST(Sparkline, SeveralValuesShareAColumn) {
  EXPECT_EQ(sparkline(kRising, 2, Glyphs::ascii), "_#");
  EXPECT_EQ(sparkline(kRising, 3, Glyphs::ascii), "_=#");
}

TEST(Sparkline, FewerValuesThanColumns) {
  EXPECT_EQ(sparkline(kRising, 80, Glyphs::ascii), "_.-=+*%#");
  EXPECT_EQ(sparkline({}, 80, Glyphs::unicode), "");
  EXPECT_EQ(sparkline(kRising, 0, Glyphs::unicode), "");
  EXPECT_EQ(sparkline(kRising, -3, Glyphs::unicode), "");
}

TEST(Sparkline, ALevelLineIsInTheMiddle) {
  EXPECT_EQ(sparkline(std::vector<double>{2, 2, 2}, 8, Glyphs::unicode), "▅▅▅");
}

TEST(Sparkline, WhatIsNotFiniteIsLeftOut) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sparkline(std::vector<double>{0, std::nan(""), inf, 7}, 4, Glyphs::ascii), "_  #");
  EXPECT_EQ(sparkline(std::vector<double>{0, inf, -inf, 7}, 2, Glyphs::ascii), "_#");
  EXPECT_EQ(sparkline(std::vector<double>{inf}, 4, Glyphs::ascii), " ");
}

TEST(FilledBar, FromEmptyToFull) {
  EXPECT_EQ(filled_bar(0, 4, Glyphs::ascii), "....");
  EXPECT_EQ(filled_bar(0.5, 4, Glyphs::ascii), "##..");
  EXPECT_EQ(filled_bar(7, 4, Glyphs::ascii), "####");
  EXPECT_EQ(filled_bar(0.25, 4, Glyphs::unicode), "█░░░");
  EXPECT_EQ(filled_bar(1, -1, Glyphs::ascii), "");
}

TEST(ValueHistory, KeepsAllUntilItIsFullAndThenMeans) {
  ValueHistory history(4);
  for (int i = 1; i <= 4; ++i) history.add(i);
  EXPECT_EQ(history.points(), (std::vector<double>{1, 2, 3, 4}));
  history.add(5);
  EXPECT_EQ(history.points(), (std::vector<double>{1.5, 3.5}));
  history.add(6);
  EXPECT_EQ(history.points(), (std::vector<double>{1.5, 3.5, 5.5}));
  EXPECT_EQ(history.values_a_point(), 2U);
}

TEST(ValueHistory, TakesNoMoreMemoryHoweverLongTheRun) {
  ValueHistory history(64);
  const double* memory = history.points().data();
  for (int i = 0; i < 100'000; ++i) history.add(i);
  EXPECT_EQ(history.points().data(), memory);
  EXPECT_LE(history.points().size(), 64U);
  EXPECT_GE(history.points().size(), 32U);
  for (std::size_t i = 1; i < history.points().size(); ++i) EXPECT_GT(history.points()[i], history.points()[i - 1]);
  EXPECT_NEAR(history.points().front(), static_cast<double>(history.values_a_point() - 1) / 2, 1e-9);
}

}  // namespace
}  // namespace trifold
