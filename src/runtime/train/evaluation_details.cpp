#include "runtime/train/evaluation_details.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace trifold {
namespace {

// A total order, so that the same samples are kept whatever order they come in.
bool is_worse(const SampleResult& a, const SampleResult& b) {
  return a.loss != b.loss ? a.loss > b.loss : a.index < b.index;
}

}  // namespace

EvaluationDetails::EvaluationDetails(std::int64_t classes)
    : classes_(classes), confusion_(static_cast<std::size_t>(classes * classes)) {
  worst_.reserve(kMostWorst + 1);
}

void EvaluationDetails::add(std::int64_t index, std::int32_t label, std::span<const float> output) {
  TRIFOLD_CHECK(static_cast<std::int64_t>(output.size()) == classes_ && label >= 0 && label < classes_,
                "label {} and {} outputs for {} classes", label, output.size(), classes_);
  const auto predicted = std::ranges::max_element(output);  // the first of equals, as the loss counts
  // The softmax of log-probabilities is the probabilities: logits need no case of their own.
  double sum = 0;
  for (const float value : output) sum += std::exp(static_cast<double>(value) - *predicted);
  double loss = std::log(sum) + *predicted - output[static_cast<std::size_t>(label)];
  if (std::isnan(loss)) loss = std::numeric_limits<double>::infinity();
  const SampleResult sample{.index = index,
                            .label = label,
                            .predicted = static_cast<std::int32_t>(predicted - output.begin()),
                            .probability = 1 / sum,
                            .loss = std::max(loss, 0.0)};
  confusion_[static_cast<std::size_t>(label * classes_ + sample.predicted)] += 1;
  consider(sample);
}

void EvaluationDetails::consider(const SampleResult& sample) {
  if (worst_.size() == kMostWorst && !is_worse(sample, worst_.back())) return;
  worst_.insert(std::ranges::upper_bound(worst_, sample, is_worse), sample);
  if (worst_.size() > kMostWorst) worst_.pop_back();
}

void EvaluationDetails::join(const EvaluationDetails& other) {
  join(other.confusion_, other.worst_);
}

void EvaluationDetails::join(std::span<const std::int64_t> confusion, std::span<const SampleResult> worst) {
  TRIFOLD_CHECK(confusion.size() == confusion_.size(), "details of {} and {} counts", confusion.size(),
                confusion_.size());
  for (std::size_t i = 0; i < confusion_.size(); ++i) confusion_[i] += confusion[i];
  for (const SampleResult& sample : worst)
    if (sample.index >= 0) consider(sample);
}

}  // namespace trifold
