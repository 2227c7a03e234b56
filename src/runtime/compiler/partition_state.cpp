#include "runtime/compiler/partition_state.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "kernels/ops/collective.h"

namespace trifold {
namespace {

class StateSharder {
 public:
  StateSharder(LaidOutGraph& laid_out, const FlatLayout& layout)
      : laid_out_(laid_out), graph_(laid_out.graph), layout_(layout) {}

  GivenPlaces run() {
    for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {
      if (layout_.replication.aside) sum_gradients_aside(i);
      if (layout_.shards(Region::gradients)) scatter_gradients(i);
      if (layout_.shards(Region::parameters))
        for (const Readers readers : {Readers::forward, Readers::repeated_forward, Readers::backward})
          gather_parameters(i, readers);
    }
    put_in_nodes();
    return std::move(given_);
  }

 private:
  // Who reads parameters that are gathered once.
  enum class Readers { forward, repeated_forward, backward };
  static Readers group_of(const Node& node) {
    if (node.phase == Phase::forward) return Readers::forward;
    return node.repeats_forward ? Readers::repeated_forward : Readers::backward;
  }

  struct NewNode {
    std::size_t before = 0;  // this node
    Node node;
  };

  ValueId add_value(std::string name, std::size_t bytes, Role role) {
    const Shape shape{static_cast<std::int64_t>(bytes / sizeof(float))};
    laid_out_.descs.push_back({shape, DType::f32, {}});
    return graph_.add_value({std::move(name), shape, DType::f32, role});
  }

  ValueId add_part(const Bucket& bucket, std::string name, Role role, Region region) {
    const ValueId part = add_value(std::move(name), layout_.part_bytes(bucket), role);
    given_.fixed.push_back({part, layout_.part(bucket, region)});
    return part;
  }

  void pack(ValueId value, ValueId into, const Bucket& bucket, int parameter) {
    given_.packed.push_back({value, into, layout_.offsets[static_cast<std::size_t>(parameter)] - bucket.offset});
  }

  std::vector<ValueId> gradients_of(const Bucket& bucket) const {
    std::vector<ValueId> gradients;
    for (const int parameter : bucket.parameters)
      gradients.push_back(graph_.parameters[static_cast<std::size_t>(parameter)].gradient);
    return gradients;
  }

  // The node after which all of them are there; none where nobody makes one.
  std::optional<std::size_t> last_maker_of(const std::vector<ValueId>& values) const {
    std::optional<std::size_t> last;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const ValueId out : graph_.nodes[i].out)
        if (std::ranges::find(values, out) != values.end()) last = i;
    return last;
  }

  void sum_gradients_aside(std::size_t index) {
    const Bucket& bucket = layout_.buckets[index];
    const std::optional<std::size_t> last = last_maker_of(gradients_of(bucket));
    if (!last) return;
    const ValueId whole = add_value(fmt::format("gradients {}", index), bucket.bytes, Role::parameter_gradient);
    given_.fixed.push_back({whole, {Region::gradients, bucket.offset, bucket.bytes}});
    AllReduce op;
    op.aside = true;
    added_.push_back(
        {*last + 1, {std::make_shared<const AllReduce>(op), {whole}, {whole}, graph_.nodes[*last].phase, -1}});
  }

  void scatter_gradients(std::size_t index) {
    const Bucket& bucket = layout_.buckets[index];
    const std::vector<ValueId> gradients = gradients_of(bucket);
    const std::optional<std::size_t> last = last_maker_of(gradients);
    if (!last) return;
    const ValueId whole = add_value(fmt::format("gradients {}", index), bucket.bytes, Role::gradient);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i] != kNoValue) pack(gradients[i], whole, bucket, bucket.parameters[i]);
    const ValueId part =
        add_part(bucket, fmt::format("gradients {} part", index), Role::parameter_gradient, Region::gradients);
    added_.push_back(
        {*last + 1, {std::make_shared<const ReduceScatter>(), {whole}, {part}, graph_.nodes[*last].phase, -1}});
  }

  void gather_parameters(std::size_t index, Readers readers) {
    const Bucket& bucket = layout_.buckets[index];
    const bool forward = readers == Readers::forward;
    std::map<ValueId, ValueId> gathered;  // parameter -> what the nodes read
    for (const int parameter : bucket.parameters)
      gathered[graph_.parameters[static_cast<std::size_t>(parameter)].value] = kNoValue;
    ValueId whole = kNoValue;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (group_of(graph_.nodes[i]) != readers) continue;
      for (ValueId& in : graph_.nodes[i].in) {
        const auto found = gathered.find(in);
        if (found == gathered.end()) continue;
        if (whole == kNoValue) {
          whole = add_value(fmt::format("parameters {}", index), bucket.bytes, Role::activation);
          const ValueId part =
              add_part(bucket, fmt::format("parameters {} part", index), Role::parameter, Region::parameters);
          AllGather op;
          op.axis = Axis::data;
          added_.push_back({i,
                            {std::make_shared<const AllGather>(op),
                             {part},
                             {whole},
                             graph_.nodes[i].phase,
                             -1,
                             graph_.nodes[i].repeats_forward}});
        }
        if (found->second == kNoValue) found->second = forward ? in : copy_of(in);
        in = found->second;
      }
    }
    for (const int parameter : bucket.parameters) {
      const ValueId read = gathered[graph_.parameters[static_cast<std::size_t>(parameter)].value];
      if (read != kNoValue) pack(read, whole, bucket, parameter);
    }
  }

  ValueId copy_of(ValueId value) {
    Value again = graph_[value];
    again.name += " again";
    again.role = Role::activation;
    laid_out_.descs.push_back(TensorDesc(laid_out_.descs[static_cast<std::size_t>(value)]));
    return graph_.add_value(std::move(again));
  }

  void put_in_nodes() {
    std::ranges::stable_sort(added_, {}, &NewNode::before);
    std::vector<Node> nodes;
    auto next = added_.begin();
    for (std::size_t i = 0; i <= graph_.nodes.size(); ++i) {
      for (; next != added_.end() && next->before == i; ++next) nodes.push_back(std::move(next->node));
      if (i < graph_.nodes.size()) nodes.push_back(std::move(graph_.nodes[i]));
    }
    graph_.nodes = std::move(nodes);
  }

  LaidOutGraph& laid_out_;
  Graph& graph_;
  const FlatLayout& layout_;
  std::vector<NewNode> added_;
  GivenPlaces given_;
};

}  // namespace

GivenPlaces partition_state(LaidOutGraph& laid_out, const FlatLayout& layout) {
  return StateSharder(laid_out, layout).run();
}

}  // namespace trifold
