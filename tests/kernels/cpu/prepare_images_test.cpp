// The op on the CPU gives the loader's numbers to the bit: a job may do this work in either place.
#include <gtest/gtest.h>

#include "support/prepared_images.h"

namespace trifold::test {
namespace {

class PrepareImagesOnCpu : public testing::TestWithParam<PreparationCase> {};

TEST_P(PrepareImagesOnCpu, GivesTheImagesOfTheLoader) {
  expect_images_of_the_loader(cpu_backend(), host_device(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Lists, PrepareImagesOnCpu, testing::ValuesIn(preparation_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace trifold::test
