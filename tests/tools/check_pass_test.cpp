// trifold check --pass: one pass of one rank, and nothing else.
#include <gtest/gtest.h>

#include "commands.h"
#include "core/error.h"
#include "support/paths.h"

namespace trifold::test {
namespace {

std::string output_of_check(const std::string& arguments) {
  const std::unique_ptr<CLI::App> app = make_command_line();
  ::testing::internal::CaptureStdout();
  try {
    app->parse("check " + (source_dir() / "models/lenet5.json").string() + " " + arguments);
  } catch (const Error& error) {
    ::testing::internal::GetCapturedStdout();
    return error.what();
  }
  return ::testing::internal::GetCapturedStdout();
}

TEST(CheckPass, ShowsARanksGraphAfterThePass) {
  const std::string forward = output_of_check("--set plan.tp=2 --pass forward --rank 1");
  EXPECT_EQ(forward.find("part 1 of 2"), std::string::npos) << forward;
  EXPECT_EQ(forward.find("all_reduce tensor"), std::string::npos) << forward;
  const std::string tensor = output_of_check("--set plan.tp=2 --pass tensor --rank 1");
  EXPECT_NE(tensor.find(", part 1 of 2 along dim 0"), std::string::npos) << tensor;
  EXPECT_NE(tensor.find("all_reduce tensor"), std::string::npos) << tensor;
  EXPECT_EQ(tensor.find("\nB "), std::string::npos) << tensor;
  EXPECT_NE(output_of_check("--pass autodiff").find("\nB "), std::string::npos);
}

TEST(CheckPass, RefusesWhatThePlanDoesNotHave) {
  EXPECT_NE(output_of_check("--pass tensr").find("there is no such pass; did you mean 'tensor'?"), std::string::npos);
  EXPECT_EQ(output_of_check("--pass tensor --rank 1"), "--rank 1: the plan has 1 rank, counted from 0");
  EXPECT_NE(output_of_check("--pass split_backward").find("this plan has no such pass; it runs forward, tensor,"),
            std::string::npos);
}

}  // namespace
}  // namespace trifold::test
