// What progress looks like at every width, and when it is shown.
#include "insight/metrics/progress.h"

#include <cmath>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;

ProgressState some_state() {
  return {.epoch = 2,
          .epochs = 5,
          .step = 120,
          .steps = 469,
          .images_per_s = 1234.4,
          .images_left = 250'000,
          .loss = 0.12345,
          .accuracy = 0.9712,
          .input_wait_fraction = 0.12};
}

TEST(ProgressFormat, Durations) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(185), "3:05");
  EXPECT_EQ(format_duration(7384), "2:03:04");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600 + 100), "3 d 04 h");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_duration(1e300), "?");
}

TEST(ProgressFormat, LineHasAllFigures) {
  EXPECT_EQ(format_progress_line(some_state()),
            "epoch 2/5  120/469  1234 images/s  loss 0.1235  accuracy 97.12 %  ETA 3:23  input-bound 12 %");
}

TEST(ProgressFormat, UnknownFiguresAreLeftOut) {
  EXPECT_EQ(format_progress_line({.epoch = 1, .epochs = 5, .step = 0, .steps = 469, .images_left = 1000}),
            "epoch 1/5    0/469");
}

TEST(ProgressFormat, WaitingForInputIsSaidFromFivePercentOn) {
  ProgressState state = some_state();
  state.input_wait_fraction = 0.05;
  EXPECT_THAT(format_progress_line(state), ::testing::Not(::testing::HasSubstr("input-bound")));
  state.input_wait_fraction = 0.051;
  EXPECT_THAT(format_progress_line(state), ::testing::HasSubstr("input-bound 5 %"));
}

TEST(ProgressFormat, SmallRatesHaveADecimalAndNanIsShown) {
  ProgressState state = some_state();
  state.images_per_s = 6.25;
  state.loss = std::nan("");
  EXPECT_THAT(format_progress_line(state), ::testing::HasSubstr("6.2 images/s  loss nan"));
}

TEST(ProgressFormat, BarAtSomeWidths) {
  EXPECT_EQ(format_progress_bar(some_state(), 200),
            "epoch 2/5  120/469 [=========>                              ]  1234 images/s  loss 0.1235  "
            "accuracy 97.12 %  ETA 3:23  input-bound 12 %");
  EXPECT_EQ(format_progress_bar(some_state(), 79),
            "epoch 2/5  120/469 [====>               ]  1234 images/s  loss 0.1235  ETA 3:23");
  EXPECT_EQ(format_progress_bar(some_state(), 50), "epoch 2/5  120/469 [===>            ]  loss 0.1235");
  EXPECT_EQ(format_progress_bar(some_state(), 20), "epoch 2/5  120/469");
  EXPECT_EQ(format_progress_bar(some_state(), 9), "epoch 2/5");
}

TEST(ProgressFormat, NeverWiderThanTheTerminal) {
  for (int columns = 0; columns <= 250; ++columns) {
    EXPECT_LE(format_progress_bar(some_state(), columns).size(), static_cast<std::size_t>(columns));
  }
  EXPECT_EQ(format_progress_bar(some_state(), -1), "");
}

TEST(ProgressFormat, BarIsEmptyFullAndNeverMore) {
  ProgressState state{.epoch = 1, .epochs = 1, .step = 0, .steps = 10};
  EXPECT_EQ(format_progress_bar(state, 30), "epoch 1/1   0/10 [           ]");
  state.step = 10;
  EXPECT_EQ(format_progress_bar(state, 30), "epoch 1/1  10/10 [===========]");
  state.step = 11;
  EXPECT_EQ(format_progress_bar(state, 30), "epoch 1/1  11/10 [===========]");
  state = {.epoch = 1, .epochs = 1, .step = 0, .steps = 0};
  EXPECT_EQ(format_progress_bar(state, 30), "epoch 1/1  0/0 [             ]");
}

TEST(ProgressFormat, AnEpochsLineAndTheBestInGreen) {
  EpochFigures epoch{.epoch = 2,
                     .epochs = 5,
                     .train_loss = 0.5,
                     .train_accuracy = 0.8,
                     .test_loss = 12345.0,
                     .test_accuracy = 0.9,
                     .best_test_accuracy = 0.9,
                     .images_per_s = 1234.4};
  const std::string plain =
      "epoch   2/5  loss 0.5000  accuracy 80.00 %  |  test loss 1.234e+04  accuracy 90.00 %  |  1234 images/s";
  EXPECT_EQ(format_epoch_line(epoch, false), plain);
  EXPECT_THAT(format_epoch_line(epoch, true), ::testing::HasSubstr("  \x1b[32maccuracy 90.00 %\x1b[0m  |"));
  epoch.best_test_accuracy = 0.95;
  EXPECT_EQ(format_epoch_line(epoch, true), plain);
  EXPECT_EQ(format_epoch_line({.epoch = 1, .epochs = 1, .train_loss = 2}, true),
            "epoch   1/1  loss 2.0000  |  0 images/s");
}

class ProgressTest : public ::testing::Test {
 protected:
  Progress::Args args(int columns) {
    return {.redraw_interval = 100ms,
            .line_interval = 10s,
            .output = {.write = [this](std::string_view text) { shown_ += text; },
                       .columns = [columns] { return columns; }}};
  }
  static ProgressState step(int step) { return {.epoch = 1, .epochs = 1, .step = step, .steps = 10}; }
  std::string take() { return std::exchange(shown_, {}); }

  std::string shown_;
  Progress::Clock::time_point now_{};
};

TEST_F(ProgressTest, TerminalRedrawsInPlaceAndNotTooOften) {
  Progress progress(args(31));
  progress.update(step(1), now_);
  EXPECT_EQ(take(), "\r\x1b[Kepoch 1/1   1/10 [>          ]");
  progress.update(step(2), now_ + 99ms);
  EXPECT_EQ(take(), "");
  progress.update(step(5), now_ + 100ms);
  EXPECT_EQ(take(), "\r\x1b[Kepoch 1/1   5/10 [====>      ]");
  progress.update(step(10), now_ + 101ms);
  EXPECT_EQ(take(), "");
  progress.finish();
  EXPECT_EQ(take(), "\r\x1b[Kepoch 1/1  10/10 [===========]\n");
  progress.finish();
  EXPECT_EQ(take(), "");
}

TEST_F(ProgressTest, LogsGetPlainLinesNowAndThen) {
  Progress progress(args(0));
  progress.update(step(1), now_);
  progress.update(step(2), now_ + 9s);
  progress.update(step(3), now_ + 10s);
  progress.update(step(4), now_ + 11s);
  EXPECT_EQ(take(), "epoch 1/1   1/10\nepoch 1/1   3/10\n");
  progress.say("accuracy 99 %");
  EXPECT_EQ(take(), "accuracy 99 %\n");
  progress.finish();
  EXPECT_EQ(take(), "epoch 1/1   4/10\n");
}

TEST_F(ProgressTest, ALineThatStaysGoesAboveTheBar) {
  Progress progress(args(31));
  progress.update(step(1), now_);
  take();
  progress.say("saved");
  EXPECT_EQ(take(), "\r\x1b[Ksaved\n\r\x1b[Kepoch 1/1   1/10 [>          ]");
}

TEST_F(ProgressTest, ABarLeftByAnErrorIsEnded) {
  {
    Progress progress(args(31));
    progress.update(step(1), now_);
    take();
  }
  EXPECT_EQ(take(), "\n");
}

}  // namespace
}  // namespace trifold
