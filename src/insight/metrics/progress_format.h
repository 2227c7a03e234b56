// What a progress line says, as pure functions of the run's state. ASCII only, so that bytes are columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trifold {

// Runs that wait longer than this share of their time for data are told so.
inline constexpr double kInputBoundFraction = 0.05;

struct ProgressState {
  std::int64_t epoch = 0;  // from 1
  std::int64_t epochs = 0;
  std::int64_t step = 0;  // done in this epoch
  std::int64_t steps = 0;
  double images_per_s = 0;                                 // 0: not known yet
  std::optional<std::int64_t> images_left = std::nullopt;  // until the end of the run; gives the ETA
  std::optional<double> loss = std::nullopt;
  std::optional<double> accuracy = std::nullopt;  // 0 to 1
  double input_wait_fraction = 0;                 // of the time, waiting for data
};

// "47 s", "3:05", "2:03:04", "3 d 04 h"
std::string format_duration(double seconds);

// At most `columns` long: the bar shrinks, then the less important figures go.
std::string format_progress_bar(const ProgressState& state, int columns);

// What an epoch has come to.
struct EpochFigures {
  std::int64_t epoch = 0;  // from 1
  std::int64_t epochs = 0;
  double train_loss = 0;
  std::optional<double> train_accuracy = {};
  std::optional<double> test_loss = {};
  std::optional<double> test_accuracy = {};
  std::optional<double> best_test_accuracy = {};  // so far, with this epoch's
  double images_per_s = 0;
};

// One line; in colour the best test accuracy so far is green.
std::string format_epoch_line(const EpochFigures& result, bool colors);

// Digits that a person reads, of a loss that may have run away.
std::string format_loss(double loss);

// All figures, no bar: for logs.
std::string format_progress_line(const ProgressState& state);

}  // namespace trifold
