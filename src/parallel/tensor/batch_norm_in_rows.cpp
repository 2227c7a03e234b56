// batch_norm where each tensor rank has some rows of the images: the ranks join their statistics, and add up what the
// gradient of x needs to know of whole images.
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/collective.h"
#include "layers/batch_norm.h"
#include "parallel/tensor/layer_parts.h"

namespace trifold {
namespace {

class BatchNormInRows final : public BatchNormLayer {
 public:
  BatchNormInRows(const FieldValues& values, const LayerPart& part) : BatchNormLayer(values), x_(part.in[0]) {}

 private:
  bool has_whole_images() const override { return false; }
  std::int64_t image_pixels(const LayerBuilder&) const override { return x_.whole.pixels(); }

  void join_images(LayerBuilder& b, const Groups& groups) const override {
    const Shape local = b.shape(b.made("mean"));
    const Shape all{local[0] * static_cast<std::int64_t>(x_.rows.size()), local[1]};
    const ValueId all_mean = b.make("rows_mean", all);
    const ValueId all_istd = b.make("rows_istd", all);
    AllGather gather;
    gather.axis = Axis::tensor;
    b.emit(gather, {b.made("mean")}, {all_mean});
    b.emit(gather, {b.made("istd")}, {all_istd});
    BatchNormJoinRows join;
    join.group = groups.samples;
    for (const RowRun& rows : x_.rows) join.pixels.push_back(rows.count() * x_.whole[3]);
    join.running = b.context().replicas == 1;
    join.eps = eps();
    join.momentum = momentum();
    std::vector<ValueId> in = {all_mean, all_istd};
    std::vector<ValueId> out = {b.make("mean", local), b.make("istd", local)};  // in the place of this rank's own
    if (join.running)
      for (const char* name : {"running_mean", "running_var"}) {
        in.push_back(b.parameter(name));
        out.push_back(b.parameter(name));
      }
    b.emit(join, in, out);
  }

  ValueId sum_over_images(LayerBuilder& b, ValueId sum, const char* name) const override {
    const ValueId all = b.make(name, b.shape(sum));
    AllReduce op;
    op.axis = Axis::tensor;
    b.emit(op, {sum}, {all}, Phase::backward_input);
    return all;
  }

  InputPart x_;
};

const RegisterLayerPart register_batch_norm_in_rows({
    .layer = "batch_norm",
    .split = LayerSplit::rows,
    .make = [](const FieldValues& values, const LayerPart& part) -> std::unique_ptr<Layer> {
      return std::make_unique<BatchNormInRows>(values, part);
    },
});

}  // namespace
}  // namespace trifold
