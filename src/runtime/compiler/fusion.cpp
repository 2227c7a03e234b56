#include "runtime/compiler/fusion.h"

#include <algorithm>
#include <map>
#include <optional>

#include "kernels/ops/activation.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/pooling.h"
#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

// The graph's nodes with who makes and who reads each value. Removing a node leaves a hole until finish().
class Rewriter {
 public:
  explicit Rewriter(Graph graph) : graph_(std::move(graph)) {}

  Graph finish() {
    std::erase_if(graph_.nodes, [](const Node& node) { return node.op == nullptr; });
    return std::move(graph_);
  }

  Graph& graph() { return graph_; }
  int count() const { return static_cast<int>(graph_.nodes.size()); }
  Node& node(int index) { return graph_.nodes[static_cast<std::size_t>(index)]; }

  template <class T>
  const T* op(int index) const {
    return index < 0 ? nullptr : dynamic_cast<const T*>(graph_.nodes[static_cast<std::size_t>(index)].op.get());
  }

  std::vector<int> readers(ValueId value) const {
    std::vector<int> found;
    for (int i = 0; i < count(); ++i) {
      const Node& candidate = graph_.nodes[static_cast<std::size_t>(i)];
      if (candidate.op && std::ranges::find(candidate.in, value) != candidate.in.end()) found.push_back(i);
    }
    return found;
  }

  int producer(ValueId value) const {
    for (int i = 0; i < count(); ++i) {
      const Node& candidate = graph_.nodes[static_cast<std::size_t>(i)];
      if (candidate.op && std::ranges::find(candidate.out, value) != candidate.out.end()) return i;
    }
    return -1;
  }

  // The one node that reads the value, if it is one and of this kind.
  template <class T>
  int only_reader(ValueId value) const {
    const std::vector<int> all = readers(value);
    return all.size() == 1 && op<T>(all[0]) ? all[0] : -1;
  }

  bool is_relu(int index) const {
    const auto* activation = op<ActivationForward>(index);
    return activation && activation->function == Activation::relu;
  }
  bool is_relu_gradient(int index) const {
    const auto* activation = op<ActivationBackward>(index);
    return activation && activation->function == Activation::relu;
  }

  template <class T>
  void replace_op(int index, T op) {
    node(index).op = std::make_shared<const T>(std::move(op));
  }
  void remove(int index) { node(index) = Node{}; }

 private:
  Graph graph_;
};

// relu whose only reader-before is `value`: index of the relu node, or -1.
int relu_after(const Rewriter& r, ValueId value) {
  const int reader = r.only_reader<ActivationForward>(value);
  return reader >= 0 && r.is_relu(reader) ? reader : -1;
}

// conv2d or linear followed by relu: the product stores max(0, y).
template <class T>
void fuse_product_relu(Rewriter& r) {
  for (int i = 0; i < r.count(); ++i) {
    const T* product = r.op<T>(i);
    if (!product || product->relu) continue;
    const int relu = relu_after(r, r.node(i).out[0]);
    if (relu < 0) continue;
    T fused = *product;
    fused.relu = true;
    r.replace_op(i, fused);
    r.node(i).out[0] = r.node(relu).out[0];
    r.remove(relu);
  }
}

// relu, then max pooling: the pooled gradient passes only where the pooled value is positive, so the relu's gradient
// costs no pass over the larger image.
void fuse_relu_gradient_into_pool(Rewriter& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (!r.is_relu_gradient(i)) continue;
    const ValueId dz = r.node(i).in[0];
    const int pool_gradient = r.producer(dz);
    const auto* pool = r.op<MaxPoolBackward>(pool_gradient);
    if (!pool || pool->relu || r.readers(dz).size() != 1) continue;
    const Node& forward = r.node(r.producer(r.node(pool_gradient).in[1]));  // the pooling, which made the argmax
    if (forward.in[0] != r.node(i).in[1]) continue;                         // it reads something else than the relu
    const ValueId pooled = forward.out[0];
    MaxPoolBackward fused = *pool;
    fused.relu = true;
    r.replace_op(pool_gradient, fused);
    r.node(pool_gradient).in.push_back(pooled);
    r.node(pool_gradient).out[0] = r.node(i).out[0];
    r.remove(i);
  }
}

void fuse_dropout_relu(Rewriter& r) {
  for (int i = 0; i < r.count(); ++i) {
    const auto* dropout = r.op<DropoutForward>(i);
    if (!dropout || dropout->relu) continue;
    const int relu = relu_after(r, r.node(i).out[0]);
    if (relu < 0) continue;
    const ValueId z = r.node(relu).out[0];

    // The gradient of this relu, if it still stands, must feed this dropout's gradient alone.
    int relu_gradient = -1;
    int dropout_gradient = -1;
    for (const int reader : r.readers(z)) {
      if (!r.is_relu_gradient(reader) || r.node(reader).in[1] != z) continue;
      relu_gradient = reader;
      dropout_gradient = r.only_reader<DropoutBackward>(r.node(reader).out[0]);
    }
    if (relu_gradient >= 0 && dropout_gradient < 0) continue;

    DropoutForward fused = *dropout;
    fused.relu = true;
    r.replace_op(i, fused);
    r.node(i).out[0] = z;
    r.remove(relu);
    if (relu_gradient < 0) continue;
    DropoutBackward gradient = *r.op<DropoutBackward>(dropout_gradient);
    gradient.relu = true;
    r.replace_op(dropout_gradient, gradient);
    r.node(dropout_gradient).in = {r.node(relu_gradient).in[0], z};
    r.remove(relu_gradient);
  }
}

// The two gradients that `value` is the sum of, where nobody else needs the sum.
std::optional<std::pair<ValueId, ValueId>> absorbed_sum(Rewriter& r, ValueId value) {
  const int sum = r.producer(value);
  const auto* add = r.op<Add>(sum);
  if (!add || add->relu || r.node(sum).phase == Phase::forward || r.readers(value).size() != 1) return std::nullopt;
  const std::pair<ValueId, ValueId> parts = {r.node(sum).in[0], r.node(sum).in[1]};
  r.remove(sum);
  return parts;
}

// The gradient of a relu that was fused into a batch norm: undone inside the reduction. With `bits` the mask was kept.
void fuse_batch_norm_gradient(Rewriter& r, int relu_gradient, ValueId x, ValueId mask_bits) {
  const ValueId d = r.node(relu_gradient).out[0];
  int reduce = -1;
  int input = -1;
  bool others = false;
  for (const int reader : r.readers(d)) {
    const bool of_this_norm = r.node(reader).in.size() > 1 && r.node(reader).in[1] == x;
    if (r.op<BatchNormBackwardReduce>(reader) && of_this_norm)
      reduce = reader;
    else if (r.op<BatchNormBackwardInput>(reader) && of_this_norm)
      input = reader;
    else
      others = true;
  }
  if (reduce < 0) return;

  const bool bits = mask_bits != kNoValue;
  BatchNormBackwardReduce fused = *r.op<BatchNormBackwardReduce>(reduce);
  fused.mask = bits ? ReluMask::bits : ReluMask::from_x;
  Node node = r.node(reduce);
  const ValueId dz = r.node(relu_gradient).in[0];
  node.in[0] = dz;
  if (const auto parts = absorbed_sum(r, dz)) {
    fused.second_gradient = true;
    node.in[0] = parts->first;
    node.in.push_back(parts->second);
  }
  if (bits) node.in.push_back(mask_bits);
  fused.write_d = bits || others || fused.second_gradient;
  if (fused.write_d) {
    node.out.push_back(d);
  } else if (input >= 0) {
    BatchNormBackwardInput from_x = *r.op<BatchNormBackwardInput>(input);
    from_x.mask = ReluMask::from_x;
    r.replace_op(input, from_x);
    r.node(input).in[0] = dz;
  }
  node.op = std::make_shared<const BatchNormBackwardReduce>(fused);
  // Where the relu's gradient stood: whoever else reads d comes after it.
  r.remove(reduce);
  r.node(relu_gradient) = std::move(node);
}

int relu_gradient_of(Rewriter& r, ValueId z) {
  for (const int reader : r.readers(z))
    if (r.is_relu_gradient(reader) && r.node(reader).in[1] == z) return reader;
  return -1;
}

// batch norm (+ residual) + relu in one pass each way.
void fuse_batch_norm(Rewriter& r) {
  for (int i = 0; i < r.count(); ++i) {
    const auto* apply = r.op<BatchNormApply>(i);
    if (!apply || apply->relu || apply->residual) continue;
    const ValueId y = r.node(i).out[0];
    const ValueId x = r.node(i).in[0];
    BatchNormApply fused = *apply;

    if (const int relu = relu_after(r, y); relu >= 0) {
      const ValueId z = r.node(relu).out[0];
      fused.relu = true;
      r.replace_op(i, fused);
      r.node(i).out[0] = z;
      r.remove(relu);
      if (const int gradient = relu_gradient_of(r, z); gradient >= 0)
        fuse_batch_norm_gradient(r, gradient, x, kNoValue);
      continue;
    }

    const int add = r.only_reader<Add>(y);
    if (add < 0 || r.node(add).phase != Phase::forward || r.op<Add>(add)->relu) continue;
    const ValueId residual = r.node(add).in[0] == y ? r.node(add).in[1] : r.node(add).in[0];
    if (residual == y) continue;
    const int relu = relu_after(r, r.node(add).out[0]);
    Node node = r.node(i);
    fused.residual = true;
    node.in.push_back(residual);
    node.out[0] = r.node(add).out[0];
    int gradient = -1;
    ValueId mask = kNoValue;
    if (relu >= 0) {
      fused.relu = true;
      node.out[0] = r.node(relu).out[0];
      gradient = relu_gradient_of(r, node.out[0]);
      if (gradient >= 0) {
        // A backend may pad each plane to whole bytes.
        const Shape& shape = r.graph()[x].shape;
        const std::int64_t bytes = shape.batch() * shape.channels() * ((shape.pixels() + 7) / 8);
        mask = r.graph().add_value({r.graph()[node.out[0]].name + " mask", Shape{bytes}, DType::u8, Role::activation});
        node.out.push_back(mask);
      }
      r.remove(relu);
    }
    node.op = std::make_shared<const BatchNormApply>(fused);
    r.remove(i);
    r.node(add) = std::move(node);  // the residual may be made after the batch norm's own place
    if (gradient >= 0) fuse_batch_norm_gradient(r, gradient, x, mask);
  }
}

void fuse_log_softmax(Rewriter& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (!r.op<LogSoftmaxForward>(i)) continue;
    const ValueId logits = r.node(i).in[0];
    const ValueId log_p = r.node(i).out[0];
    int loss = -1;
    int gradient = -1;
    bool others = false;
    for (const int reader : r.readers(log_p)) {
      if (r.op<CrossEntropy>(reader))
        loss = reader;
      else if (r.op<LogSoftmaxBackward>(reader))
        gradient = reader;
      else
        others = true;
    }
    if (loss < 0 || others) continue;
    CrossEntropy fused = *r.op<CrossEntropy>(loss);
    fused.log_input = false;
    r.replace_op(loss, fused);
    r.node(loss).in[0] = logits;
    if (gradient >= 0) {
      r.node(loss).out[1] = r.node(gradient).out[0];
      r.remove(gradient);
    }
    if (r.graph().output == log_p) r.graph().output = logits;
    r.remove(i);
  }
}

}  // namespace

Graph fuse(Graph graph) {
  Rewriter r(std::move(graph));
  fuse_log_softmax(r);
  fuse_relu_gradient_into_pool(r);
  fuse_dropout_relu(r);
  fuse_batch_norm(r);
  fuse_product_relu<Conv2dForward>(r);
  fuse_product_relu<LinearForward>(r);
  return r.finish();
}

}  // namespace trifold
