// A network as a list of ops over values: what the compiler turns into a Program. Nodes are in execution order. Forward
// nodes come first; autodiff appends the input-gradient (B) and weight-gradient (W) nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/op.h"
#include "layers/split.h"

namespace trifold {

using ValueId = int;
inline constexpr ValueId kNoValue = -1;

enum class Role {
  input,       // images, labels, targets: filled from outside before each step
  parameter,   // trained
  state,       // kept from step to step but not trained (running statistics)
  activation,  // made by forward nodes
  gradient,    // made by backward nodes
  parameter_gradient,
  report,  // read by the trainer after a step
};

struct Value {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  Role role = Role::activation;
};

enum class Phase { forward, backward_input, backward_weight, update };
const char* name_of(Phase phase);  // "F", "B", "W", "U"

struct Node {
  OpPtr op;
  std::vector<ValueId> in;
  std::vector<ValueId> out;  // a value that is updated where it lies is in both
  Phase phase = Phase::forward;
  int layer = -1;                // index into Graph::layers
  bool repeats_forward = false;  // in backward work, by a stage that recomputes
};

// How a parameter starts.
struct Init {
  enum class Kind { constant, kaiming_uniform, kaiming_normal, xavier_uniform } kind = Kind::constant;
  double constant = 0;
  std::int64_t fan_in = 1;
  std::int64_t fan_out = 1;
};

// A tensor that belongs to the model and is in every checkpoint.
struct Parameter {
  std::string name;  // "conv1.weight"
  ValueId value = kNoValue;
  ValueId gradient = kNoValue;  // kNoValue for states
  Init init;
  bool decay = true;
  Shard shard = {};  // this rank's part of it

  // The whole parameter's, of which `mine` is the shape of this rank's part.
  Shape whole_shape(const Shape& mine) const { return shard.whole_shape(mine); }
};

struct LayerInfo {
  std::string id;
  std::string type;
  std::vector<ValueId> in;
  ValueId out = kNoValue;
  std::vector<int> parameters;          // indices into Graph::parameters
  std::optional<DType> precision = {};  // of its activations, where the layer names one
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;  // in layer order; trained ones and states
  std::vector<LayerInfo> layers;

  ValueId images = kNoValue;      // [N,C,H,W]: f32, or u8 that prepare_images, the first node, reads
  ValueId labels = kNoValue;      // i32 [N]
  ValueId targets = kNoValue;     // f32 [N,F]; mse only
  ValueId report = kNoValue;      // of the loss
  ValueId output = kNoValue;      // what the loss reads: logits, log-probabilities or predictions
  ValueId loss_scale = kNoValue;  // f32 [4]; only where the loss is scaled (see LossScaling)
  // Tensor ranks have unequal numbers of rows of some value. A pass that weighs bytes may then decide otherwise on each
  // rank, so it must not decide whether ranks meet: all must meet in the same order.
  bool rows_differ = false;

  ValueId add_value(Value value);
  const Value& operator[](ValueId id) const { return values[static_cast<std::size_t>(id)]; }
};

std::string to_string(const Graph& graph);  // one line a node

}  // namespace trifold
