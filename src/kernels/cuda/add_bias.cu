// The bias on its way into y, where the library that made y could not add it. A thread keeps the biases of its columns
// (columns.cuh) in registers and walks down the rows.
#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/columns.cuh"

namespace trifold::cuda {
namespace {

template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads) add_bias(Columns c, bool relu, const float* bias, T* y) {
  const ColumnPlace place = column_place<kPack>(c);
  float biases[1][kPack];
  load_coefficients(c, place, biases,
                    [&](int channel, float(&values)[1]) { values[0] = bias == nullptr ? 0.0f : bias[channel]; });
  const auto load = [&](std::int64_t at) { return load_raw<kPack>(y + at); };
  for_each_row(c, place, load, [&](std::int64_t at, const RawElements<kPack, T>& loaded) {
    float x[kPack];
    unpack<T>(loaded, x);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      x[k] += biases[0][k];
      if (relu) x[k] = fmaxf(x[k], 0.0f);
    }
    store_floats(y + at, x);
  });
}

template <class T, int kPack>
void launch(const AddBiasArgs& args) {
  const Columns columns = plan_columns({.view = args.view, .group = args.view.samples, .pack = kPack}, *args.device);
  add_bias<T, kPack>
      <<<columns.blocks(), kColumnThreads, coefficient_bytes<kPack, 1>(columns), args.device->compute()>>>(
          columns, args.relu, args.bias, static_cast<T*>(args.y));
  check_launch("add_bias");
}

}  // namespace

void launch_add_bias_relu(const AddBiasArgs& args) {
  const ImageView& view = args.view;
  if (view.elements() == 0 || (args.bias == nullptr && !args.relu)) return;
  TRIFOLD_CHECK(view.block == 1 || view.block == view.channels, "a bias for images in blocks of {} channels",
                view.block);
  with_element(args.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    packs_fit(view, static_cast<const T*>(args.y)) ? launch<T, Pack<T>::kCount>(args) : launch<T, 1>(args);
  });
}

}  // namespace trifold::cuda
