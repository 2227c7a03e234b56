// Every op of the CUDA backend gives what the reference gives, over the same cases as the CPU backend: from NCHW and
// NHWC inputs, with and without taking over its inputs' memory, in f32, f16 and bf16, in lazy and in eager stream
// order.
#include <gtest/gtest.h>

#include "gpusim/include/gpusim_client.h"
#include "kernels/gpu_plugin.h"
#include "support/op_comparison.h"

namespace trifold::test {
namespace {

enum class Images { row_major, channels_last };

// Activations of a case as channels-last, each blocked by its own channels.
OpCase with_images(const OpCase& op_case, Images images) {
  OpCase laid_out = op_case;
  if (images == Images::row_major) return laid_out;
  for (CaseValue& value : laid_out.values) {
    const Shape& shape = value.desc.shape;
    if (value.activation && shape.rank() == 4)
      value.desc.layout = {Order::channel_block, static_cast<int>(shape.channels())};
    if (value.activation && shape.rank() == 2 && value.pixels > 1)
      value.desc.layout = {Order::column_block, static_cast<int>(shape[1] / value.pixels), value.pixels};
    value.activation = false;  // the layout stays as it is here
  }
  return laid_out;
}

class CudaOpEquality : public ::testing::TestWithParam<OpCase> {
 protected:
  void compare(bool own_convolutions, const char* order) {
    gpusim_client::set_order(order);
    GpuPlugin& plugin = *find_gpus().plugin;
    const ComparedBackend tested{plugin.backend(own_convolutions), &plugin.device(0)};
    std::set<std::string> missing;
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      const std::optional<OpCase> typed = type == DType::f32 ? GetParam() : in_precision(GetParam(), type);
      if (!typed) continue;
      for (const Images images : {Images::row_major, Images::channels_last})
        for (const bool in_place : {false, true}) {
          if (in_place && type != DType::f32) continue;
          SCOPED_TRACE(::testing::Message() << name_of(type) << (images == Images::row_major ? "" : " channels-last")
                                            << (in_place ? " in place" : ""));
          missing.merge(compare_with_reference(tested, with_images(*typed, images), {.in_place = in_place}));
        }
    }
    std::string names;
    for (const std::string& name : missing) names += " " + name;
    EXPECT_EQ(names, "") << "no kernel";
  }

  bool has_convolution() const {
    for (const CaseStep& step : GetParam().steps)
      if (step.op->name().starts_with("conv2d.")) return true;
    return false;
  }
};

// Layouts of weights that only the CPU has.
bool is_of_the_cpu(const OpCase& op_case) {
  return op_case.name.starts_with("reorder_") && op_case.name.find("weights") != std::string::npos;
}

std::vector<OpCase> gpu_cases() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, is_of_the_cpu);
  return cases;
}

TEST_P(CudaOpEquality, InLazyOrder) {
  compare(false, "lazy");
}

TEST_P(CudaOpEquality, InEagerOrder) {
  compare(false, "eager");
}

TEST_P(CudaOpEquality, OwnConvolution) {
  if (!has_convolution()) GTEST_SKIP() << "no convolution in this case";
  compare(true, "lazy");
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaOpEquality, ::testing::ValuesIn(gpu_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace trifold::test
