// What backward work reads of forward work: a gradient that undoes a ReLU, a pooling or a batch norm must read what
// that very forward node saved. Values are numbered so that a copy in another type, layout or shape, and what is
// computed again, has the number of the original.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/shape_ops.h"
#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

class SavedValues {
 public:
  SavedValues(const Graph& graph, std::string_view pass) : graph_(graph), pass_(pass), number_(graph.values.size()) {
    for (int& number : number_) number = next_++;
  }

  void run() {
    for (const Node& node : graph_.nodes) {
      check(node);
      give_numbers(node);
    }
  }

 private:
  struct Origin {
    const Node* node = nullptr;
    std::size_t out = 0;
  };

  template <class T>
  static const T* op(const Node& node) {
    return dynamic_cast<const T*>(node.op.get());
  }

  int number(ValueId id) const { return number_[static_cast<std::size_t>(id)]; }
  std::vector<int> numbers(const std::vector<ValueId>& ids) const {
    std::vector<int> found;
    for (const ValueId id : ids) found.push_back(number(id));
    return found;
  }
  Origin origin(ValueId id) const {
    const auto found = origins_.find(number(id));
    return found == origins_.end() ? Origin{} : found->second;
  }
  const std::string& name(ValueId id) const { return graph_[id].name; }
  [[noreturn]] void fail(const Node& node, const std::string& what) const { fail_pass(pass_, graph_, node, what); }

  // Work that is repeated has the op of the original, and reads the same numbers.
  void give_numbers(const Node& node) {
    const bool copies = node.op->is_view() || op<Cast>(node) || op<Reorder>(node);
    const std::vector<int> read = numbers(node.in);
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      int& given = number_[static_cast<std::size_t>(node.out[i])];
      if (copies && !read.empty()) {
        given = read[0];
        continue;
      }
      const auto [known, added] = known_.try_emplace({node.op.get(), i, read}, next_);
      if (added) origins_[next_++] = {&node, i};
      given = known->second;
    }
    if (const auto* activation = op<ActivationForward>(node)) activated_.emplace_back(read[0], activation->function);
    if (const auto* norm = op<BatchNormApply>(node)) norms_.emplace_back(read[0], norm);
  }

  void check(const Node& node) const {
    if (op<MaxPoolBackward>(node)) check_max_pool(node);
    if (const auto* activation = op<ActivationBackward>(node)) check_activation(node, activation->function);
    if (const auto* dropout = op<DropoutBackward>(node); dropout && dropout->relu) check_dropout(node);
    if (const auto* norm = op<BatchNormBackwardReduce>(node)) check_batch_norm(node, norm->mask);
    if (const auto* norm = op<BatchNormBackwardInput>(node)) check_batch_norm(node, norm->mask);
  }

  bool is_relu_output(ValueId id) const {
    const Origin from = origin(id);
    return from.node != nullptr && from.out == 0 && from.node->op->ends_with_relu();
  }

  void check_max_pool(const Node& node) const {
    const auto& backward = static_cast<const MaxPoolBackward&>(*node.op);
    const Origin argmax = origin(node.in[1]);
    const auto* forward = argmax.node == nullptr ? nullptr : op<MaxPoolForward>(*argmax.node);
    if (forward == nullptr || argmax.out != 1 || forward->args.text() != backward.args.text())
      fail(node, fmt::format("reads '{}' as its argmax, which no pooling of the same windows made", name(node.in[1])));
    if (!backward.relu) return;
    const ValueId pooled = argmax.node->out[0];
    const Origin y = origin(node.in[2]);
    if (y.node != argmax.node || y.out != 0)
      fail(node, fmt::format("undoes a ReLU by '{}', which is not the output of its pooling, '{}'", name(node.in[2]),
                             name(pooled)));
    if (const ValueId x = argmax.node->in[0]; !is_relu_output(x))
      fail(node, fmt::format("undoes a ReLU by the sign of '{}', but its pooling read '{}', which is no ReLU's output",
                             name(node.in[2]), name(x)));
  }

  void check_activation(const Node& node, Activation function) const {
    const ValueId saved = node.in[1];
    const Origin from = origin(saved);
    const auto* forward = from.node == nullptr ? nullptr : op<ActivationForward>(*from.node);
    if (traits_of(function).gradient_from == GradientFrom::input) {
      if (std::ranges::find(activated_, std::pair(number(saved), function)) == activated_.end())
        fail(node, fmt::format("reads '{}' as the input of a {}, but no {} read it", name(saved), name_of(function),
                               name_of(function)));
      return;
    }
    const bool made_it =
        function == Activation::relu ? is_relu_output(saved) : forward && forward->function == function;
    if (!made_it)
      fail(node,
           fmt::format("reads '{}' as the output of a {}, which did not make it", name(saved), name_of(function)));
  }

  void check_dropout(const Node& node) const {
    const Origin from = origin(node.in[1]);
    const auto* forward = from.node == nullptr ? nullptr : op<DropoutForward>(*from.node);
    if (forward == nullptr || !forward->relu)
      fail(node, fmt::format("undoes a ReLU by '{}', which no dropout with a ReLU made", name(node.in[1])));
  }

  // Both gradients of a batch norm have x as their second input, and the reduction its mask as its last.
  void check_batch_norm(const Node& node, ReluMask mask) const {
    const ValueId x = node.in[1];
    if (mask == ReluMask::bits) {
      const ValueId bits = node.in.back();
      const Origin from = origin(bits);
      if (from.node == nullptr || from.out != 1 || !op<BatchNormApply>(*from.node) ||
          number(from.node->in[0]) != number(x))
        fail(node, fmt::format("reads the mask '{}', which no batch norm of '{}' wrote", name(bits), name(x)));
    }
    if (mask == ReluMask::from_x && std::ranges::none_of(norms_, [&](const auto& norm) {
          return norm.first == number(x) && norm.second->relu && !norm.second->residual;
        }))
      fail(node, fmt::format("undoes the ReLU of a batch norm of '{}', but no batch norm with a ReLU alone reads it",
                             name(x)));
  }

  const Graph& graph_;
  std::string_view pass_;
  int next_ = 0;
  std::vector<int> number_;  // by value
  std::map<std::tuple<const Op*, std::size_t, std::vector<int>>, int> known_;
  std::map<int, Origin> origins_;                             // by number: the first node that made it
  std::vector<std::pair<int, Activation>> activated_;         // numbers that an activation read
  std::vector<std::pair<int, const BatchNormApply*>> norms_;  // numbers that a batch norm read
};

}  // namespace

void verify_saved_values(const Graph& graph, std::string_view pass) {
  SavedValues(graph, pass).run();
}

}  // namespace trifold
