// Whatever registers itself is complete: an op has cases and a gradient check, a layer has its help, its counterpart in
// PyTorch and its colour on the report page. What is missing is named.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "layers/layer.h"
#include "parallel/pipeline/pipeline_schedule.h"
#include "runtime/config/optimizer_types.h"
#include "runtime/data/source.h"
#include "support/op_cases.h"
#include "support/paths.h"
#include "tree/sources.h"

namespace trifold::test {
namespace {

// Ops that divide or join the tensors of several ranks, and the tests that compare each with the whole tensor.
const std::map<std::string, std::string> kNeedRanks = {
    {"all_gather", "cuda/collectives_test.cpp"},
    {"all_reduce", "cuda/collectives_test.cpp"},
    {"all_reduce.half", "parallel/data/gradient_exchange_kernels_test.cpp"},
    {"all_reduce.low_rank", "parallel/data/gradient_exchange_kernels_test.cpp"},
    {"all_reduce.top_k", "parallel/data/gradient_exchange_kernels_test.cpp"},
    {"average", "runtime/train/sync_test.cpp"},
    {"batch_norm.join", "parallel/communicator/batch_norm_join_test.cpp"},
    {"batch_norm.join_rows", "cuda/collectives_test.cpp"},
    {"gather_blocks", "cuda/exchanges_test.cpp"},
    {"gather_channels", "cuda/collectives_test.cpp"},
    {"gather_rows", "cuda/exchanges_test.cpp"},
    {"grid_gather", "cuda/exchanges_test.cpp"},
    {"grid_sum", "cuda/exchanges_test.cpp"},
    {"grid_sum_scatter", "cuda/exchanges_test.cpp"},
    {"halo_add", "parallel/tensor/halo_test.cpp"},
    {"halo_exchange", "parallel/tensor/halo_test.cpp"},
    {"join_sums", "runtime/train/fold_test.cpp"},
    {"receive", "cuda/collectives_test.cpp"},
    {"reduce_scatter", "runtime/train/zero_test.cpp"},
    {"send", "cuda/collectives_test.cpp"},
    {"take_block", "cuda/exchanges_test.cpp"},
    {"take_rows", "cuda/exchanges_test.cpp"},
};

std::set<std::string> ops_of_one_rank() {
  std::set<std::string> names = op_names();
  std::erase_if(names, [](const std::string& name) { return kNeedRanks.contains(name); });
  names.erase("reshape");  // a view: it has no kernel
  return names;
}

TEST(Registries, OpsOfSeveralRanksHaveTheirTests) {
  for (const auto& [name, file] : kNeedRanks) {
    EXPECT_TRUE(op_names().contains(name)) << "there is no op '" << name << "'";
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(source_dir()) / "tests" / file)) << file;
  }
}

bool is_gradient(const std::string& op) {
  return op.find("backward") != std::string::npos || op.find("gradient") != std::string::npos;
}

TEST(Registries, EveryOpHasACase) {
  std::set<std::string> covered;
  for (const OpCase& op_case : op_cases())
    for (const CaseStep& step : op_case.steps) covered.emplace(step.op->name());
  const std::set<std::string> names = ops_of_one_rank();
  ASSERT_GT(names.size(), 30U);
  for (const std::string& name : names)
    EXPECT_TRUE(covered.contains(name)) << "add a case of '" << name << "' to tests/support/op_cases_*.cpp";
}

TEST(Registries, EveryGradientIsCheckedAgainstFiniteDifferences) {
  std::set<std::string> checked;
  for (const OpCase& op_case : op_cases())
    for (const CaseStep& step : op_case.steps)
      if (std::ranges::any_of(op_case.gradients, [&](const GradientCheck& check) {
            return std::ranges::find(step.out, check.gradient) != step.out.end();
          }))
        checked.emplace(step.op->name());
  for (const std::string& name : ops_of_one_rank())
    if (is_gradient(name)) {
      EXPECT_TRUE(checked.contains(name)) << "add a case with a gradient that '" << name << "' makes";
    }
}

void expect_help(const std::string& what, const Fields& fields) {
  for (const Field& field : fields)
    EXPECT_FALSE(field.help.empty()) << what << ": the field '" << field.name << "' has no help";
}

TEST(Registries, EverythingExplainsItself) {
  for (const auto& [name, type] : layer_types()) {
    EXPECT_FALSE(type.help.empty()) << "the layer '" << name << "' has no help";
    expect_help("layer '" + name + "'", type.fields);
  }
  for (const DataSourceType* type : data_source_types()) {
    EXPECT_FALSE(type->help.empty()) << "the data source '" << type->name << "' has no help";
    expect_help("data source '" + type->name + "'", type->fields);
  }
  for (const PipelineSchedule& schedule : pipeline_schedules())
    EXPECT_FALSE(schedule.help.empty()) << "the schedule '" << schedule.name << "' has no help";
  for (const OptimizerType& type : optimizer_types()) expect_help("optimizer '" + type.name + "'", fields_of(type));
}

TEST(Registries, EveryLayerHasItsColourAndItsCounterpartInPyTorch) {
  const std::filesystem::path root = source_dir();
  const std::string page = text_of(root / "src/insight/report/page/charts/network.js");
  const std::string torch = text_of(root / "tools/checks/torch_net.py");
  for (const auto& [name, type] : layer_types()) {
    const bool is_activation = std::filesystem::exists(root / "src/kernels/activations" / (name + ".h"));
    const std::string quoted = "\"" + name + "\"";
    if (!is_activation) {  // the report gives these their family
      EXPECT_NE(page.find(quoted), std::string::npos)
          << "charts/network.js has no colour for the layer '" << name << "'";
    }
    EXPECT_NE(torch.find(quoted), std::string::npos)
        << "tools/checks/torch_net.py does not know the layer '" << name << "'";
  }
}

}  // namespace
}  // namespace trifold::test
