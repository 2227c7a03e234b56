// The op cases: one list that drives the equality test (a backend against the reference) and the gradient test
// (backward ops against finite differences). A case is a short chain of ops over values that are drawn or made.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "support/op_runner.h"

namespace trifold::test {

enum class Draw {
  made,      // not drawn: a step makes it
  normal,    // standard normal
  wide,      // normal times 30: exercises overflow and saturation
  far,       // normal plus 10,000
  spaced,    // all different, at least 0.02 apart and 0.01 from zero, in random order: no ties, no kinks nearby
  few,       // 0, 1 or 2: ties
  positive,  // 0.5 to 1.5
  zeros,
  one_infinite,  // normal, but for one in the middle
  loss_scale,    // 1024, three good updates, one skipped
  labels,        // i32 of 0 .. limit - 1
  some_labels,   // the same, every third is -1
  bytes,         // u8 of 0 .. 255
};

struct CaseValue {
  std::string name;
  TensorDesc desc;
  Draw draw = Draw::made;
  std::int64_t limit = 0;   // of labels
  bool activation = false;  // may come in the backend's blocked layout
  std::int64_t pixels = 1;  // of an activation [N,F] that is a flattened image
  bool opaque = false;
};

struct CaseStep {
  OpPtr op;
  std::vector<int> in, out;  // indices of values; one in both is updated where it lies
};

// A term of the number whose gradient is checked: sum(weights * value), or value[0] where weights is -1.
struct Objective {
  int value = -1;
  int weights = -1;
};

struct GradientCheck {
  int of = -1;        // a drawn value
  int gradient = -1;  // the value that a step makes as the objective's gradient
};

struct OpCase {
  std::string name;  // letters, digits and underscores
  std::vector<CaseValue> values;
  std::vector<CaseStep> steps;
  std::vector<Objective> objectives;
  std::vector<GradientCheck> gradients;
};

const std::vector<OpCase>& op_cases();

// The case with activations, their gradients and weights in 16 bits; none where nothing changes, or where a cast would
// have to stand between two steps.
std::optional<OpCase> in_precision(const OpCase& op_case, DType type);

// The case with all its f32 values in f64, but for loss scales, which are f32 always. Drawn values are the same
// numbers.
OpCase in_double(const OpCase& op_case);

void PrintTo(const OpCase& op_case, std::ostream* os);  // what GoogleTest shows of a case: its name

// The case's drawn values; those that steps make are empty. Activations are said to come blocked by `block` where that
// divides their channels; 0: plain.
std::vector<HostTensor> draw_values(const OpCase& op_case, int block);

// The step's outputs, from `values`.
std::vector<HostTensor> run_step(const OpRun& run, const OpCase& op_case, const CaseStep& step,
                                 const std::vector<HostTensor>& values);

// What every step of a case runs with.
StepContext case_context();

}  // namespace trifold::test
