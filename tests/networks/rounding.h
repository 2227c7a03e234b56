// The errors of a computation in float or 16 bits, as a model: every op reads its inputs and writes its outputs with
// random relative errors of a few units in the last place. How far that moves a result is the measure of how far a
// program's result may be off.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "layers/graph.h"

namespace trifold::test {

struct RoundingOptions {
  DType precision = DType::f32;  // of layers that name none of their own
  bool winograd = true;          // 3x3 convolutions may lose digits
  double loss_scale = 1;         // gradients in fp16 are this much larger in memory
};

// Random errors by the million: quick rather than good (splitmix64).
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15) {}

  double operator()() {  // -1 to 1
    std::uint64_t bits = state_ += 0x9E3779B97F4A7C15;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
    return static_cast<double>(static_cast<std::int64_t>(bits ^ (bits >> 31))) * 0x1p-63;
  }

 private:
  std::uint64_t state_;
};

// To every number an error of at most `relative` of itself plus `absolute`. What is zero stays zero, and equal numbers
// get equal errors, as they do where they are rounded: a mean of them has that error, too.
void disturb(std::vector<double>& values, double relative, double absolute, Noise& noise);
// The same to the terms of a sum: partial sums of similar terms round in the same direction, so that neighbours have
// half of their error in common.
void disturb_terms(std::vector<double>& values, double relative, Noise& noise);

class Kinks;

class Rounding {
 public:
  Rounding(const RoundingOptions& options, std::uint64_t seed) : options_(options), noise_(seed) {}

  // From now on, values close to a kink also end up on either side of it: see Kinks::cross. The kinks must outlive
  // this.
  void cross(const Kinks& kinks) { kinks_ = &kinks; }

  // Disturbs what a node of the graph reads, in micro-batch `pass`. Returns the values before.
  std::map<ValueId, std::vector<double>> disturb_inputs(const Graph& graph, int pass, std::size_t node,
                                                        std::vector<std::vector<double>>& values);
  void disturb_outputs(const Graph& graph, const Node& node, std::vector<std::vector<double>>& values);

  // Whether an activation came so close to the largest number of fp16 that a right program may have infinity there.
  // (Of gradients the program itself notices, and leaves the update out.)
  bool overflowed() const { return overflowed_; }

 private:
  RoundingOptions options_;
  Noise noise_;
  const Kinks* kinks_ = nullptr;
  bool overflowed_ = false;
};

// The largest relative error of rounding to the type.
double unit_of(DType type);

// How much larger than one rounding the error of a sum of so many products is.
double growth_of_sum(double products);

// Products that are added up for one element of the result; 1 for ops that multiply no matrices.
double products_per_element(const Op& op, std::span<const TensorDesc> in, std::span<const TensorDesc> out);

// The rounding error of an op that does not shrink with its inputs and its result: a loss's gradient is the difference
// of a probability and 1 or 0, divided by the batch. `first_input` is the op's first input.
double absolute_error(const Op& op, const std::vector<double>& first_input);

// Whether backends may compute it by Winograd's method.
bool may_be_winograd(const Op& op, std::span<const TensorDesc> in);
inline constexpr double kWinogradError = 4e-6;  // relative to the largest element of the result

// The places where a gradient jumps: relu at zero, two maxima of a window. Where a value is so close to one that
// rounding may move it across, two right programs differ.
class Kinks {
 public:
  // The inputs of nodes that have kinks, first of an exact run, then of disturbed ones. `pass`: of several
  // micro-batches.
  void see(const Graph& graph, int pass, std::size_t node, const std::vector<double>& input);
  // Whether a value is within `margin` times the largest error of its tensor.
  bool close(double margin) const;
  // Takes each value that rounding may move across its kink to either side, at random. A program's errors are one draw
  // of many: a few disturbed runs need not cross where it does, and one crossing changes a gradient by more than all
  // rounding errors.
  void cross(int pass, std::size_t node, std::vector<double>& input, Noise& noise) const;
  static bool has_kink(const Op& op);

 private:
  struct Place {
    OpPtr op;
    Shape shape;
    std::vector<double> exact;
    double error = 0;  // the largest of a disturbed run
  };
  std::map<std::pair<int, std::size_t>, Place> places_;
};

}  // namespace trifold::test
