// A test that makes the simulator report an error fails, whatever its results are.
#include <gtest/gtest.h>

#include "gpusim/include/gpusim_client.h"

namespace {

class ReportsListener : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const std::string& report : gpusim_client::take_reports()) ADD_FAILURE() << "the simulator reports " << report;
  }
};

// Listeners can be added as soon as there is a UnitTest; an environment is set up before the first test.
class AddListener : public ::testing::Environment {
  void SetUp() override { ::testing::UnitTest::GetInstance()->listeners().Append(new ReportsListener); }
};
const ::testing::Environment* const registered = ::testing::AddGlobalTestEnvironment(new AddListener);

}  // namespace
