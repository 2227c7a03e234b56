// Layouts: producer and consumer of a value agree on the order of its elements.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

class LayoutVerifier {
 public:
  LayoutVerifier(const LaidOutGraph& laid_out, const Backend& backend, std::string_view pass)
      : graph_(laid_out.graph), descs_(laid_out.descs), backend_(backend), pass_(pass) {
    for (const Parameter& parameter : graph_.parameters)
      if (parameter.gradient != kNoValue) parameter_of_[parameter.gradient] = parameter.value;
  }

  void run() {
    for (const Node& node : graph_.nodes) {
      check_descs(node);
      if (node.op->is_view()) {
        check_view(node);
        continue;
      }
      check_choice(node);
      check_gradients(node);
      check_masks(node);
    }
  }

 private:
  const TensorDesc& desc(ValueId id) const { return descs_[static_cast<std::size_t>(id)]; }
  const std::string& name(ValueId id) const { return graph_[id].name; }
  [[noreturn]] void fail(const Node& node, const std::string& what) const { fail_pass(pass_, graph_, node, what); }

  void check_descs(const Node& node) const {
    for (const std::vector<ValueId>& ids : {node.in, node.out})
      for (const ValueId id : ids) {
        const Value& value = graph_[id];
        if (static_cast<std::size_t>(id) >= descs_.size())
          fail(node, fmt::format("names '{}', which has no layout", value.name));
        if (desc(id).shape != value.shape || desc(id).dtype != value.dtype)
          fail(node, fmt::format("names '{}', which is {} {} but is laid out as {}", value.name, name_of(value.dtype),
                                 to_string(value.shape), to_string(desc(id))));
        const bool filled_from_outside = value.role == Role::input || value.role == Role::state;
        if (filled_from_outside && !desc(id).layout.plain())
          fail(node, fmt::format("names '{}', which is {} although it is filled from outside in plain order",
                                 value.name, to_string(desc(id).layout)));
      }
  }

  // Element by element, for as many as it takes to see every part of a block.
  void check_view(const Node& node) const {
    constexpr std::int64_t kLooks = 1024;
    const TensorDesc& from = desc(node.in[0]);
    const TensorDesc& to = desc(node.out[0]);
    const std::int64_t step = std::max<std::int64_t>(1, from.elements() / kLooks) | 1;
    for (std::int64_t i = 0; i < from.elements(); i += step)
      if (offset_in(from.layout, from.shape, i) != offset_in(to.layout, to.shape, i))
        fail(node, fmt::format("views '{}' ({}) as '{}' ({}), whose elements lie in another order", name(node.in[0]),
                               to_string(from), name(node.out[0]), to_string(to)));
  }

  void check_choice(const Node& node) const {
    std::vector<TensorDesc> in;
    std::vector<TensorDesc> out;
    for (const ValueId id : node.in) in.push_back(desc(id));
    for (const ValueId id : node.out) out.push_back(desc(id));
    const LayoutChoice wanted = backend_.choose_layouts(*node.op, in, out);
    const auto check = [&](const char* does, const std::vector<ValueId>& ids, const std::vector<Layout>& layouts) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (desc(ids[i]).layout != layouts[i])
          fail(node, fmt::format("{} '{}' as {}, but backend {} wants {}", does, name(ids[i]),
                                 to_string(desc(ids[i]).layout), backend_.name(), to_string(layouts[i])));
    };
    check("reads", node.in, wanted.in);
    check("writes", node.out, wanted.out);
  }

  void check_gradients(const Node& node) const {
    for (const ValueId id : node.out) {
      const auto parameter = parameter_of_.find(id);
      if (parameter != parameter_of_.end() && desc(id).layout != desc(parameter->second).layout)
        fail(node, fmt::format("writes '{}' as {}, but its parameter is {}", name(id), to_string(desc(id).layout),
                               to_string(desc(parameter->second).layout)));
    }
  }

  void check_masks(const Node& node) {
    for (std::size_t i = 0; i < node.in.size(); ++i) {
      const auto image = node.op->mask_follows(Op::Side::in, static_cast<int>(i));
      const auto written = masks_.find(node.in[i]);
      if (written == masks_.end()) {
        if (image) fail(node, fmt::format("reads '{}' as a mask, which no node wrote as one", name(node.in[i])));
        continue;
      }
      if (!image) fail(node, fmt::format("reads the mask '{}' without saying in which order", name(node.in[i])));
      const TensorDesc& read = desc(node.in[static_cast<std::size_t>(*image)]);
      const TensorDesc& wrote = written->second;
      if (read.shape != wrote.shape || read.layout != wrote.layout)
        fail(node, fmt::format("reads the mask '{}' in the order of {} {}, but it was written in the order of {} {}",
                               name(node.in[i]), to_string(read.shape), to_string(read.layout), to_string(wrote.shape),
                               to_string(wrote.layout)));
    }
    for (std::size_t i = 0; i < node.out.size(); ++i)
      if (const auto image = node.op->mask_follows(Op::Side::out, static_cast<int>(i)))
        masks_[node.out[i]] = desc(node.in[static_cast<std::size_t>(*image)]);
  }

  const Graph& graph_;
  const std::vector<TensorDesc>& descs_;
  const Backend& backend_;
  std::string_view pass_;
  std::map<ValueId, ValueId> parameter_of_;  // by gradient
  std::map<ValueId, TensorDesc> masks_;      // by mask: the image whose order its bits have
};

}  // namespace

void verify_layouts(const LaidOutGraph& laid_out, const Backend& backend, std::string_view pass) {
  LayoutVerifier(laid_out, backend, pass).run();
}

}  // namespace trifold
