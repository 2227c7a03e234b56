// What an evaluation says beyond its score: which classes are taken for which, and the samples with the largest loss.
// Details of ranks and processes that each saw some samples are joined; the order does not matter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trifold {

struct SampleResult {
  std::int64_t index = -1;  // in the data set; -1: none
  std::int32_t label = 0;
  std::int32_t predicted = 0;
  double probability = 0;  // of the predicted class
  double loss = 0;         // -log of the label's probability, without the weights and the smoothing of training
};

class EvaluationDetails {
 public:
  static constexpr std::size_t kMostWorst = 24;

  explicit EvaluationDetails(std::int64_t classes);

  // `output` is what the loss reads of one sample, [classes]: logits or log-probabilities.
  void add(std::int64_t index, std::int32_t label, std::span<const float> output);
  void join(const EvaluationDetails& other);
  void join(std::span<const std::int64_t> confusion, std::span<const SampleResult> worst);

  std::int64_t classes() const { return classes_; }
  const std::vector<std::int64_t>& confusion() const { return confusion_; }  // [label, predicted] samples
  const std::vector<SampleResult>& worst() const { return worst_; }          // the largest loss first

 private:
  void consider(const SampleResult& sample);

  std::int64_t classes_;
  std::vector<std::int64_t> confusion_;
  std::vector<SampleResult> worst_;
};

}  // namespace trifold
