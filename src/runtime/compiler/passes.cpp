#include "runtime/compiler/passes.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

#ifdef TRIFOLD_VERIFY_PASSES
constexpr bool kVerifyPasses = true;
#else
constexpr bool kVerifyPasses = false;
#endif

struct PassNames {
  const char* name;
  const char* noun;
};

// In the order of Pass.
constexpr PassNames kPasses[] = {
    {"forward", "the forward graph"},
    {"tensor", "the tensor pass"},
    {"autodiff", "autodiff"},
    {"stages", "the cut into stages"},
    {"fusion", "fusion"},
    {"recompute", "recomputation"},
    {"precision", "the choice of element types"},
    {"layouts", "the choice of layouts"},
    {"recompute_stage", "recomputation of the stage"},
    {"split_backward", "the split of backward work"},
    {"partition", "the division of states"},
    {"memory", "the memory plan"},
    {"program", "the update was added"},
};
static_assert(std::size(kPasses) == static_cast<std::size_t>(Pass::program) + 1);

// Lines in columns: phase, layer, op, values.
class GraphText {
 public:
  explicit GraphText(const PassResult& result) : graph_(*result.graph), laid_out_(result.laid_out) {
    for (const Node& node : graph_.nodes) {
      layer_width_ = std::max(layer_width_, layer_of(node).size());
      op_width_ = std::max(op_width_, std::min(kWidestOp, to_string(*node.op).size()));
    }
  }

  std::string text() const {
    std::string text;
    for (const Parameter& parameter : graph_.parameters)
      text += fmt::format("{} {}{}\n", graph_[parameter.value].role == Role::state ? "state    " : "parameter",
                          described(parameter.value), part_text(parameter.shard));
    for (const Node& node : graph_.nodes)
      text += fmt::format("{}{} {:<{}}  {:<{}}  {}->{}\n", name_of(node.phase), node.repeats_forward ? "+" : " ",
                          layer_of(node), layer_width_, to_string(*node.op), op_width_, read(node), written(node));
    return text;
  }

 private:
  static constexpr std::size_t kWidestOp = 52;

  std::string layer_of(const Node& node) const {
    return node.layer < 0 ? "-" : graph_.layers[static_cast<std::size_t>(node.layer)].id;
  }

  std::string described(ValueId id) const {
    const Value& value = graph_[id];
    if (laid_out_ != nullptr)
      return fmt::format("{} ({})", value.name, to_string(laid_out_->descs[static_cast<std::size_t>(id)]));
    return fmt::format("{} ({} {})", value.name, name_of(value.dtype), to_string(value.shape));
  }

  // Messages between stages are only read or only written.
  std::string read(const Node& node) const { return node.in.empty() ? "" : list(node.in) + " "; }
  std::string written(const Node& node) const { return node.out.empty() ? "" : " " + list(node.out); }

  std::string list(const std::vector<ValueId>& ids) const {
    std::string text;
    for (const ValueId id : ids) text += (text.empty() ? "" : ", ") + described(id);
    return text;
  }

  static std::string part_text(const Shard& shard) {
    if (shard.dim < 0) return "";
    std::string text = fmt::format(", part {} of {} along dim {}", shard.index, shard.count, shard.dim);
    if (shard.columns > 1) text += fmt::format(", part {} of {} along dim 1", shard.column, shard.columns);
    return text;
  }

  const Graph& graph_;
  const LaidOutGraph* laid_out_;
  std::size_t layer_width_ = 0;
  std::size_t op_width_ = 0;
};

}  // namespace

const std::vector<std::string>& pass_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const PassNames& pass : kPasses) all.emplace_back(pass.name);
    return all;
  }();
  return names;
}

const std::string& name_of(Pass pass) {
  return pass_names()[static_cast<std::size_t>(pass)];
}

std::optional<Pass> parse_pass(std::string_view name) {
  const auto found = std::ranges::find(pass_names(), name);
  if (found == pass_names().end()) return std::nullopt;
  return static_cast<Pass>(found - pass_names().begin());
}

const char* noun_of(Pass pass) {
  return kPasses[static_cast<std::size_t>(pass)].noun;
}

void report_pass(const PassResult& result, const PassObserver& observer) {
  if (kVerifyPasses) verify_pass(result);
  if (observer) observer(result);
}

bool verifies_passes() {
  return kVerifyPasses;
}

std::string to_string(const PassResult& result) {
  return result.program != nullptr ? to_string(*result.program) : GraphText(result).text();
}

}  // namespace trifold
