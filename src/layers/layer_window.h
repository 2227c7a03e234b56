// A layer's view of the forward graph: what it sees while it adds nodes, forward or backward.
#pragma once

#include "layers/forward_graph.h"

namespace trifold {

class LayerWindow : public virtual LayerBuilder {
 public:
  const ModelContext& context() const override { return forward_.context; }
  Mode mode() const override { return forward_.mode; }
  int layer_index() const override { return current_; }
  ValueId in(int index) const override { return info().in[static_cast<std::size_t>(index)]; }
  int in_count() const override { return static_cast<int>(info().in.size()); }
  ValueId out() const override { return layer().out; }
  ValueId parameter(const std::string& name) const override;
  const Shape& shape(ValueId value) const override { return forward_.graph[value].shape; }
  ValueId make(const std::string& name, const Shape& shape, DType dtype) override;
  ValueId made(const std::string& name) const override;
  void add(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out, Phase phase) override;

 protected:
  // `makes`: the role of the values that layers make for themselves.
  LayerWindow(ForwardGraph& forward, int layer, Role makes) : forward_(forward), current_(layer), makes_(makes) {}

  const GraphLayer& layer() const { return forward_.layers[static_cast<std::size_t>(current_)]; }
  const LayerInfo& info() const { return forward_.graph.layers[static_cast<std::size_t>(current_)]; }
  Parameter& declared(const std::string& name) const;

  ForwardGraph& forward_;
  int current_;  // index of the layer

 private:
  Role makes_;
};

}  // namespace trifold
