// batch_norm: each channel to mean 0 and variance 1, then scaled and shifted. x [N,C,...] -> y of the same shape. In
// training the statistics are those of groups of bn_group consecutive samples; in evaluation the running averages.
#pragma once

#include "layers/layer.h"

namespace trifold {

class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(const FieldValues& values);

  Shape infer_shape(std::span<const Shape> in) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> in) const override;
  bool is_channel_local() const override { return true; }
  std::optional<RowWindow> row_window() const override { return RowWindow{}; }
  void forward(ForwardBuilder& b) const override;
  void backward(GradientBuilder& b) const override;

 protected:
  // How the groups lie on this replica's samples.
  struct Groups {
    std::int64_t samples = 0;  // of a group, on this replica
    int span = 1;              // replicas that a group lies on
  };

  double eps() const { return eps_; }
  double momentum() const { return momentum_; }

  // A part of the layer that has only some pixels of each image (see parallel/tensor/batch_norm_in_rows.cpp) makes its
  // statistics those of whole images, and its sums of gradients likewise.
  virtual bool has_whole_images() const { return true; }
  virtual std::int64_t image_pixels(const LayerBuilder& b) const { return b.shape(b.in()).pixels(); }
  virtual void join_images(LayerBuilder& /*b*/, const Groups& /*groups*/) const {}
  virtual ValueId sum_over_images(LayerBuilder& /*b*/, ValueId sum, const char* /*name*/) const { return sum; }

 private:
  Groups groups_of(const LayerBuilder& b) const;
  void join_replicas(ForwardBuilder& b, const Groups& groups, ValueId mean, ValueId istd) const;
  static ValueId sum_over_group(LayerBuilder& b, const Groups& groups, ValueId sum, const char* name);

  double eps_;
  double momentum_;
};

}  // namespace trifold
