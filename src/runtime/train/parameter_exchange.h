// The other side of a model whose optimiser runs elsewhere: it takes gradients and gives parameters, tensor by tensor,
// while a step goes on. Tensors are whole and in row-major order, numbered as ParallelModel::served_tensors().
#pragma once

#include <span>

namespace trifold {

// In every step each tensor is asked for once, before anything reads it, and handed out once, when nothing changes it
// any more. Ranks of a plan call on their own threads: calls for different tensors may come at the same time. What a
// call throws ends the step.
class ParameterExchange {
 public:
  ParameterExchange() = default;
  ParameterExchange(const ParameterExchange&) = delete;
  ParameterExchange& operator=(const ParameterExchange&) = delete;
  virtual ~ParameterExchange() = default;

  // Fills `values` with what this step is to work with, and returns true; it may wait for it. False: the model keeps
  // what it has, and `values` was not touched. In the order of the forward pass.
  virtual bool need_parameter(int tensor, std::span<float> values) = 0;

  // The gradient of the mean loss over the batch. Of a tensor that is not trained, the tensor itself, after all
  // gradients. `values` is valid during the call. In the order of the backward pass.
  virtual void gradient_ready(int tensor, std::span<const float> values) = 0;
};

}  // namespace trifold
