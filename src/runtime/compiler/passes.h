// The passes that make a program of a network, in the order in which they run, and how to look at what each of them
// made. The verifier and `trifold check --pass` both do it here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trifold {

struct CompileOptions;
struct GivenPlaces;
struct Graph;
struct LaidOutGraph;
struct Program;

enum class Pass {
  forward,          // every layer's forward nodes, whole
  tensor,           // layers divided among tensor ranks, with the conversions between them
  autodiff,         // backward nodes
  stages,           // this rank's part of the network, with messages where it was cut
  fusion,           // several nodes in one
  recompute,        // cheap activations made again instead of kept
  precision,        // element types, and casts where they meet
  layouts,          // memory layouts, and reorders where they meet
  recompute_stage,  // a stage's forward nodes repeated before its backward ones
  split_backward,   // weight gradients apart from input gradients
  partition,        // exchanges of parameters and gradients of which each replica has a part
  memory,           // a kernel for each node and a place for each value
  program,          // the update, too: all that a step does
};

// The names that `trifold check --pass` takes, in order.
const std::vector<std::string>& pass_names();
const std::string& name_of(Pass pass);
std::optional<Pass> parse_pass(std::string_view name);

// "fusion", "the choice of layouts": what the verifier's sentences call it, after "after".
const char* noun_of(Pass pass);

// What a pass made. The layouts, the program and what belongs to them are there once they are decided.
struct PassResult {
  Pass pass = Pass::forward;
  const Graph* graph = nullptr;
  const LaidOutGraph* laid_out = nullptr;
  const Program* program = nullptr;
  const GivenPlaces* given = nullptr;
  const CompileOptions* options = nullptr;
};

using PassObserver = std::function<void(const PassResult&)>;

// Verifies the result, where verifies_passes(), and then calls the observer, if there is one.
void report_pass(const PassResult& result, const PassObserver& observer);

// Whether this build verifies what each pass makes: tests and debug builds do.
bool verifies_passes();

// The graph, one line a parameter and a node, or the program.
std::string to_string(const PassResult& result);

}  // namespace trifold
