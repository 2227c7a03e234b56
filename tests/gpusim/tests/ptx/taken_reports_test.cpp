// These tests provoke reports on purpose and look at each; what is left at the end is no fault of the program.
#include <gtest/gtest.h>

#include "include/gpusim.h"

namespace {

class TakenReports : public testing::Environment {
  void TearDown() override {
    char text[1];
    gpusim_take_reports(text, sizeof text);
  }
};

const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new TakenReports);

}  // namespace
