// The op on a GPU gives the loader's numbers to the bit.
#include <gtest/gtest.h>

#include "gpusim/include/gpusim_client.h"
#include "kernels/gpu_plugin.h"
#include "support/prepared_images.h"

namespace trifold::test {
namespace {

class PrepareImagesOnGpu : public ::testing::TestWithParam<PreparationCase> {};

TEST_P(PrepareImagesOnGpu, GivesTheImagesOfTheLoader) {
  gpusim_client::set_order("lazy");
  GpuPlugin& plugin = *find_gpus().plugin;
  expect_images_of_the_loader(plugin.backend(false), plugin.device(0), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Lists, PrepareImagesOnGpu, ::testing::ValuesIn(preparation_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace trifold::test
