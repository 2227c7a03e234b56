// The tests of the CUDA backend. Run with the simulator's libraries first on the library path (tools/test does it) or
// on a machine with a GPU. A test that makes the simulator report an error fails, whatever its results are.
#include <gtest/gtest.h>

#include "cuda/gpusim_client.h"
#include "kernels/gpu_plugin.h"

namespace {

class ReportListener : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    const std::string reports = trifold::test::take_gpu_reports();
    if (!reports.empty()) ADD_FAILURE() << "the simulator reports:\n" << reports;
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (trifold::find_gpus().plugin == nullptr) {
    std::fprintf(stderr, "no GPU to test on: %s\n", trifold::find_gpus().why_not.c_str());
    return 1;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new ReportListener);
  return RUN_ALL_TESTS();
}
