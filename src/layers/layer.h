// A layer: what one entry of "layers" in a job means. One file a layer in this folder: its JSON fields, its shape rule,
// its ops forward and backward. The file registers the layer under its JSON name; nothing else needs to know of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fields.h"
#include "kernels/ops/prepare_images.h"
#include "layers/graph.h"
#include "layers/layer_part.h"
#include "layers/row_window.h"

namespace trifold {

enum class Mode { train, evaluate };

// What every layer may need to know of the job.
struct ModelContext {
  std::int64_t batch = 1;         // samples in this rank's micro-batch
  std::int64_t global_batch = 1;  // what the loss is averaged over
  std::int64_t bn_group = 1;      // samples a batch-norm group
  std::int64_t classes = 0;
  std::vector<float> class_weights = {};          // [classes] or empty: for a loss that has none of its own
  std::optional<PrepareImagesArgs> prepare = {};  // images come as raw bytes; the first op makes what layers read
  int replicas = 1;  // that train on the same micro-batch: this one has part `replica` of it
  int replica = 0;
};

// What a layer sees of the graph while it adds its nodes, forward or backward.
class LayerBuilder {
 public:
  LayerBuilder() = default;
  LayerBuilder(const LayerBuilder&) = delete;
  LayerBuilder& operator=(const LayerBuilder&) = delete;
  virtual ~LayerBuilder() = default;

  virtual const ModelContext& context() const = 0;
  virtual Mode mode() const = 0;
  virtual int layer_index() const = 0;  // also the random stream of the layer

  virtual ValueId in(int index = 0) const = 0;
  virtual int in_count() const = 0;
  virtual ValueId out() const = 0;                               // the layer's output, made by shape rule
  virtual ValueId parameter(const std::string& name) const = 0;  // as declared; states too
  virtual const Shape& shape(ValueId value) const = 0;

  // Values of the layer's own. What forward made can be asked for by name in backward.
  virtual ValueId make(const std::string& name, const Shape& shape, DType dtype = DType::f32) = 0;
  virtual ValueId made(const std::string& name) const = 0;

  // Adds a node. In backward, `phase` says whether it makes the input gradient (B) or a parameter gradient (W).
  virtual void add(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out, Phase phase = Phase::forward) = 0;

  template <class T>
  void emit(T op, const std::vector<ValueId>& in, const std::vector<ValueId>& out, Phase phase = Phase::forward) {
    add(std::make_shared<const T>(std::move(op)), in, out, phase);
  }
};

class ForwardBuilder : public virtual LayerBuilder {
 public:
  // What a loss compares with.
  virtual ValueId labels() = 0;   // i32 [N]
  virtual ValueId targets() = 0;  // f32, shape of the first input

  // Adds a node after all forward nodes: for what the backward pass does not wait for.
  virtual void add_at_forward_end(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out) = 0;

  template <class T>
  void emit_at_forward_end(T op, const std::vector<ValueId>& in, const std::vector<ValueId>& out) {
    add_at_forward_end(std::make_shared<const T>(std::move(op)), in, out);
  }
};

class GradientBuilder : public virtual LayerBuilder {
 public:
  virtual ValueId out_gradient() const = 0;
  virtual bool wants_gradient(int input = 0) const = 0;
  virtual ValueId make_in_gradient(int input = 0) = 0;            // a new value to write the gradient to
  virtual void set_in_gradient(int input, ValueId gradient) = 0;  // or: an existing value is the gradient
  virtual ValueId parameter_gradient(const std::string& name) = 0;
};

// A trained tensor or a state, as the layer declares it. Its full name is "<layer id>.<name>".
struct ParameterSpec {
  std::string name;
  Shape shape;
  Init init = {};
  bool trained = true;
  bool decay = true;
};

class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  // The output's shape for these inputs (dim 0 is the batch). Throws ShapeError with what is wrong.
  virtual Shape infer_shape(std::span<const Shape> in) const = 0;
  virtual std::vector<ParameterSpec> parameters(std::span<const Shape> /*in*/) const { return {}; }
  virtual void forward(ForwardBuilder& b) const = 0;
  virtual void backward(GradientBuilder& b) const = 0;

  // --- how it may be divided among tensor ranks

  // Whether each channel of the output depends on the same channel of each input only, so that a rank can work on its
  // channels alone.
  virtual bool is_channel_local() const { return false; }
  // Whether an output is a sum over channels of the input, so that a rank can make its channels' part of the sum.
  virtual bool sums_over_channels() const { return false; }
  // For images of which a rank has some rows: which rows of the inputs an output row depends on; none: on all of them.
  virtual std::optional<RowWindow> row_window() const { return std::nullopt; }
  // Whether an output is a sum over the rows of the input, so that a rank can make its rows' part of the sum.
  virtual bool sums_over_rows() const { return false; }
  // Whether each number of the output depends on the same number of each input only.
  virtual bool is_element_wise() const { return false; }
  // How else it may be divided into this many parts, for whole inputs of these shapes.
  virtual std::vector<LayerSplit> splits(std::span<const Shape> /*in*/, int /*parts*/) const { return {}; }
  // Makes the layer the part of itself that one rank computes: a split that splits() named; rows, whose padding comes
  // with the input; or whole, where inputs alone are parts. Not for parts that parallel/tensor/layer_parts.h registers.
  virtual void narrow(const LayerPart& /*part*/) {}

  // A loss ends the network: its forward makes the gradient of its input too.
  virtual bool is_loss() const { return false; }
  virtual bool needs_targets() const { return false; }  // reads float targets, not labels
};

// A layer's shapes do not fit. The caller adds the layer's id, type and place in the file.
struct ShapeError {
  std::string message;            // "needs an input of [N, C, H, W]"
  std::optional<int> input = {};  // the input that does not fit, to name its layer
};

inline constexpr int kAnyInputs = -1;

struct LayerType {
  std::string name;
  std::string help;  // one line
  int inputs = 1;    // kAnyInputs: two or more
  Fields fields;
  std::unique_ptr<Layer> (*make)(const FieldValues& values) = nullptr;
};

const std::map<std::string, LayerType>& layer_types();
const LayerType* find_layer_type(const std::string& name);

// At namespace scope in the layer's file.
struct RegisterLayer {
  explicit RegisterLayer(LayerType type);
};

}  // namespace trifold
