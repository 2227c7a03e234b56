// A node's tensors, and what a rule of the verifier may ask of them: each question that is answered with no raises an
// internal error that names the node and the tensor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "layers/graph.h"
#include "runtime/compiler/verify.h"

namespace trifold {

class NodeShapes {
 public:
  NodeShapes(const Graph& graph, const Node& node, std::string_view pass) : graph_(graph), node_(node), pass_(pass) {}

  template <class T>
  const T& op() const {
    return static_cast<const T&>(*node_.op);
  }
  const Value& in(std::size_t index) const { return graph_[node_.in[index]]; }
  const Value& out(std::size_t index) const { return graph_[node_.out[index]]; }
  std::size_t ins() const { return node_.in.size(); }
  std::size_t outs() const { return node_.out.size(); }

  [[noreturn]] void fail(const std::string& what) const { fail_pass(pass_, graph_, node_, what); }

  void counts(std::size_t in_count, std::size_t out_count) const {
    if (ins() != in_count || outs() != out_count)
      fail(fmt::format("has {} inputs and {} outputs instead of {} and {}", ins(), outs(), in_count, out_count));
  }
  void rank(const Value& value, int expected) const {
    if (value.shape.rank() != expected)
      fail(fmt::format("has '{}' of shape {}, which has not {} dimensions", value.name, to_string(value.shape),
                       expected));
  }
  void shape(const Value& value, const Shape& expected) const {
    if (value.shape != expected)
      fail(fmt::format("has '{}' of shape {} instead of {}", value.name, to_string(value.shape), to_string(expected)));
  }
  void type(const Value& value, DType expected) const {
    if (value.dtype != expected)
      fail(fmt::format("has '{}' of type {} instead of {}", value.name, name_of(value.dtype), name_of(expected)));
  }
  void same(const Value& value, const Value& as) const { shape(value, as.shape); }
  // All inputs and outputs have the shape of the first input.
  void all_same() const {
    for (std::size_t i = 1; i < ins(); ++i) same(in(i), in(0));
    for (std::size_t i = 0; i < outs(); ++i) same(out(i), in(0));
  }
  void times(const Value& value, const Value& of, std::int64_t factor) const {
    if (value.shape.elements() != of.shape.elements() * factor)
      fail(fmt::format("makes '{}' of shape {} from '{}' of shape {}", value.name, to_string(value.shape), of.name,
                       to_string(of.shape)));
  }

 private:
  const Graph& graph_;
  const Node& node_;
  std::string_view pass_;
};

}  // namespace trifold
