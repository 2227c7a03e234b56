// The tests of the CUDA backend. Run with the simulator's libraries first on the library path (tools/test does it) or
// on a machine with a GPU.
#include <cstdlib>

#include <gtest/gtest.h>

#include "kernels/gpu_plugin.h"
#include "support/paths.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::setenv("GPUSIM_DEVICES", "4", 0);  // plans have up to four ranks
  // Looked at when the first range is named.
  ::setenv("NVTX_INJECTION64_PATH", trifold::test::nvtx_log_path().c_str(), 0);
  if (trifold::find_gpus().plugin == nullptr) {
    std::fprintf(stderr, "no GPU to test on: %s\n", trifold::find_gpus().why_not.c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
