#include "insight/compare/trace_files.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(TraceFiles, HaveNamesThatAreSafeAndNotAlike) {
  EXPECT_EQ(trace_files_of({"single", "dp=2,zero=1", "../pp 2/x", "single", "single"}),
            (std::vector<std::string>{"trace-single.json", "trace-dp=2,zero=1.json", "trace-.._pp_2_x.json",
                                      "trace-single-2.json", "trace-single-3.json"}));
  EXPECT_LT(trace_files_of({std::string(1000, 'a')})[0].size(), 200U);
}

}  // namespace
}  // namespace trifold
