// The verifier: checks of what a compiler pass made, so that a wrong rewrite is found where it happens instead of as a
// wrong gradient. report_pass() calls it after each pass where TRIFOLD_VERIFY_PASSES is defined (tests and debug
// builds). Every function raises an internal error that names the pass, the node and the value in one sentence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/mesh.h"
#include "runtime/compiler/program.h"

namespace trifold {

// Whatever of the following can be known after the pass.
void verify_pass(const PassResult& result);

// Every value is written once and before it is read, phases follow each other, every trained parameter has its
// gradient, nothing reads the loss's gradient without the loss scale, shapes and element types fit the ops, and saved
// values are those that forward work made.
void verify_graph(const Graph& graph, std::string_view pass);

// Every node's layouts are those that the backend wants, views keep the order of elements, gradients lie as their
// parameters do, and masks are read in the order in which they were written.
void verify_layouts(const LaidOutGraph& laid_out, const Backend& backend, std::string_view pass);

// The program is walked as it is executed: whatever a node reads is still in memory, no two live buffers overlap, views
// lie within what they view, and memory on its way to another rank is left alone.
void verify_memory(const Program& program, const GivenPlaces& given, const CompileOptions& options,
                   std::string_view pass);

// Two ranks that meet along an axis meet in the same order: else each waits for the other forever.
void verify_exchanges(const Program& rank, const Program& other, Axis axis, std::string_view pass);

// A rank's programs, in an order that all ranks have.
struct RankPrograms {
  MeshPlace place;
  std::vector<const Program*> programs;
};
// The same of all ranks, each with those that differ from it along one axis only: ranks meet no others.
void verify_ranks(std::span<const RankPrograms> ranks);

// Parts of verify_graph, one file each.
void verify_shapes(const Graph& graph, std::string_view pass);
void verify_saved_values(const Graph& graph, std::string_view pass);

std::string node_name(const Graph& graph, const Node& node);  // "conv1 conv2d.forward"

// "internal error: after fusion, 'pool max_pool.backward' ...": `what` is the rest of the sentence.
[[noreturn]] void fail_pass(std::string_view pass, const Graph& graph, const Node& node, const std::string& what);
// The same of a fault that is no single node's.
[[noreturn]] void fail_pass(std::string_view pass, const std::string& what);

}  // namespace trifold
