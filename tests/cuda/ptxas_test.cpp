// What ptxas makes of the kernels for each architecture that releases are built for: no register is ever spilled to
// memory, and a multiprocessor can hold enough warps. The simulator has unpacked the kernels' PTX.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpusim/include/gpusim_client.h"
#include "kernels/gpu_plugin.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

struct Compiled {
  std::string kernel;
  int registers = 0;  // a thread
  int spilled_bytes = 0;

  // That the registers of a multiprocessor are enough for: 65536 on all these architectures, given out by eights a
  // thread.
  int warps() const { return 65536 / (32 * ((registers + 7) / 8 * 8)); }
};

// ptxas -v says for each kernel:
//   Compiling entry function '<mangled>' for 'sm_80'
//   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   Used 32 registers, ...
std::vector<Compiled> read_messages(const fs::path& file) {
  static const std::regex entry("Compiling entry function '([^']*)'");
  static const std::regex spills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  static const std::regex registers("Used ([0-9]+) registers");
  std::vector<Compiled> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::smatch found;
    if (std::regex_search(line, found, entry)) all.push_back({.kernel = found[1]});
    if (all.empty()) continue;
    if (std::regex_search(line, found, spills)) all.back().spilled_bytes += std::stoi(found[1]) + std::stoi(found[2]);
    if (std::regex_search(line, found, registers)) all.back().registers = std::stoi(found[1]);
  }
  return all;
}

bool is_ours(const std::string& kernel) {
  return kernel.find("trifold") != std::string::npos;  // the other kernels are CUB's
}

class Ptxas : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NE(find_gpus().plugin, nullptr);
    modules_ = gpusim_client::write_ptx(folder().path().string());
  }
  void SetUp() override {
    if (!gpusim_client::available()) GTEST_SKIP() << "not on the simulator";
    if (std::system("ptxas --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no ptxas on the path";
  }

  static const testing::TemporaryDirectory& folder() {
    static const testing::TemporaryDirectory one;
    return one;
  }

  static std::vector<Compiled> compile(int architecture) {
    std::vector<Compiled> all;
    for (int i = 0; i < modules_; ++i) {
      const std::string ptx = (folder().path() / fmt::format("{}.ptx", i)).string();
      const std::string messages = fmt::format("{}.{}", ptx, architecture);
      EXPECT_EQ(
          std::system(fmt::format("ptxas -v -arch=sm_{} {} -o /dev/null 2>{}", architecture, ptx, messages).c_str()), 0)
          << ptx;
      for (Compiled& each : read_messages(messages))
        if (is_ours(each.kernel)) all.push_back(std::move(each));
    }
    return all;
  }

  inline static int modules_ = 0;
};

// What the kernel comes to that keeps most in registers: the own convolution's product, with its tile of results (three
// blocks of 128 threads).
constexpr int kLeastWarps = 12;

TEST_P(Ptxas, NothingIsSpilledAndWarpsFit) {
  const std::vector<Compiled> all = compile(GetParam());
  EXPECT_GE(all.size(), 100u);
  for (const Compiled& each : all) {
    EXPECT_EQ(each.spilled_bytes, 0) << each.kernel;
    ASSERT_GT(each.registers, 0) << each.kernel;
    EXPECT_GE(each.warps(), kLeastWarps) << each.kernel << " takes " << each.registers << " registers";
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Ptxas, ::testing::Values(75, 80, 90, 100, 120),
                         [](const auto& each) { return fmt::format("sm_{}", each.param); });

}  // namespace
}  // namespace trifold::test
