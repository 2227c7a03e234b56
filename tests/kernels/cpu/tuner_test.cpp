#include "kernels/cpu/tuner.h"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/parallel.h"

namespace trifold::cpu {
namespace {

// Candidates that take as long as they say, by a clock that they move themselves.
class TunerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("trifold_tuner_test_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "deep" / "tuning.jsonl"; }

  TunerOptions options(bool measure = true, const std::string& machine = "a machine") {
    return {.cache_file = file(), .machine = machine, .measure = measure, .clock_s = [this] { return now_s_; }};
  }

  TuneCandidate candidate(const std::string& name, double cost_s, double first_run_s = 0) {
    return {name, [this, name] { prepared_.push_back(name); },
            [this, name, cost_s, first_run_s] {
              const bool first = runs_[name]++ == 0;
              now_s_ += first && first_run_s > 0 ? first_run_s : cost_s;
            }};
  }

  int total_runs() const {
    int total = 0;
    for (const auto& [name, runs] : runs_) total += runs;
    return total;
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    std::ifstream stream(file());
    for (std::string line; std::getline(stream, line);)
      if (!line.empty()) result.push_back(line);
    return result;
  }
  void write(const std::string& text) {
    std::filesystem::create_directories(file().parent_path());
    std::ofstream(file(), std::ios::app) << text;
  }

  std::filesystem::path folder_;
  double now_s_ = 1000;
  std::map<std::string, int> runs_;
  std::vector<std::string> prepared_;
};

TEST_F(TunerTest, TakesTheFastest) {
  Tuner tuner(options());
  EXPECT_EQ(tuner.choose("k", std::vector{candidate("slow", 3), candidate("fast", 1), candidate("middle", 2)}), 1u);
}

TEST_F(TunerTest, FirstWinsATie) {
  Tuner tuner(options());
  EXPECT_EQ(tuner.choose("k", std::vector{candidate("a", 1), candidate("b", 1)}), 0u);
}

TEST_F(TunerTest, WarmUpDoesNotCount) {
  Tuner tuner(options());
  EXPECT_EQ(tuner.choose("k", std::vector{candidate("steady", 2), candidate("slow start", 1, 10)}), 1u);
}

TEST_F(TunerTest, AHopelessStartIsNotRepeated) {
  Tuner tuner(options());
  EXPECT_EQ(tuner.choose("k", std::vector{candidate("good", 1), candidate("hopeless", 9)}), 0u);
  EXPECT_EQ(runs_["hopeless"], 1);
}

TEST_F(TunerTest, OneCandidateIsNotMeasured) {
  Tuner tuner(options());
  EXPECT_EQ(tuner.choose("k", std::vector{candidate("only", 1)}), 0u);
  EXPECT_EQ(total_runs(), 0);
  EXPECT_TRUE(prepared_.empty());
  EXPECT_TRUE(lines().empty());
}

TEST_F(TunerTest, WithoutMeasuringTheFirst) {
  Tuner tuner(options(false));
  EXPECT_EQ(tuner.choose("k", std::vector{candidate("slow", 3), candidate("fast", 1)}), 0u);
  EXPECT_EQ(total_runs(), 0);
}

TEST_F(TunerTest, RemembersInMemoryAndInTheFile) {
  const std::vector candidates = {candidate("slow", 3), candidate("fast", 1)};
  Tuner tuner(options());
  tuner.choose("k", candidates);
  const int runs = total_runs();
  EXPECT_EQ(tuner.choose("k", candidates), 1u);
  Tuner next_process(options());
  EXPECT_EQ(next_process.choose("k", candidates), 1u);
  EXPECT_EQ(total_runs(), runs);
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(TunerTest, RemembersByNameNotByPlace) {
  Tuner(options()).choose("k", std::vector{candidate("slow", 3), candidate("fast", 1)});
  const int runs = total_runs();
  EXPECT_EQ(Tuner(options()).choose("k", std::vector{candidate("fast", 1), candidate("slow", 3)}), 0u);
  EXPECT_EQ(total_runs(), runs);
}

TEST_F(TunerTest, MeasuresAnewForAnotherKeyMachineOrWinner) {
  Tuner(options()).choose("k", std::vector{candidate("slow", 3), candidate("fast", 1)});
  Tuner(options()).choose("other", std::vector{candidate("x", 3), candidate("y", 1)});
  EXPECT_GT(runs_["x"], 0);
  Tuner(options(true, "another machine")).choose("k", std::vector{candidate("v", 3), candidate("fast", 1)});
  EXPECT_GT(runs_["v"], 0);
  EXPECT_EQ(Tuner(options()).choose("k", std::vector{candidate("slow", 3), candidate("new", 1)}), 1u);
  EXPECT_GT(runs_["new"], 0);
}

TEST_F(TunerTest, IgnoresTornAndForeignLines) {
  write("not json\n[1, 2]\n{\"key\": 7, \"winner\": \"fast\"}\n{\"winner\": \"fast\"}\n\xff\xfe\n{\"key\": \"a mach");
  Tuner tuner(options());
  EXPECT_EQ(tuner.choose("k", std::vector{candidate("slow", 3), candidate("fast", 1)}), 1u);
  const int runs = total_runs();
  EXPECT_GT(runs, 0);
  // The new entry survives behind the torn line.
  EXPECT_EQ(Tuner(options()).choose("k", std::vector{candidate("slow", 3), candidate("fast", 1)}), 1u);
  EXPECT_EQ(total_runs(), runs);
}

TEST_F(TunerTest, AFolderThatCannotBeWrittenIsNoError) {
  TunerOptions unwritable = options();
  unwritable.cache_file = "/proc/no/such/folder/tuning.jsonl";
  Tuner tuner(unwritable);
  const std::vector candidates = {candidate("slow", 3), candidate("fast", 1)};
  EXPECT_EQ(tuner.choose("k", candidates), 1u);
  const int runs = total_runs();
  EXPECT_EQ(tuner.choose("k", candidates), 1u);
  EXPECT_EQ(total_runs(), runs);
}

TEST_F(TunerTest, LongCandidatesRunLessOften) {
  Tuner tuner(options());
  tuner.choose("k", std::vector{candidate("long", 10), candidate("hopeless", 100), candidate("short", 1e-4)});
  EXPECT_EQ(runs_["long"], 2);      // one of them the warm-up
  EXPECT_EQ(runs_["hopeless"], 1);  // the warm-up told
  EXPECT_GT(runs_["short"], 20);
  EXPECT_LT(runs_["short"], 120);
}

TEST(TuningFile, FollowsTheEnvironment) {
  const auto saved = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  const auto restore = [](const char* name, const std::optional<std::string>& value) {
    if (value)
      ::setenv(name, value->c_str(), 1);
    else
      ::unsetenv(name);
  };
  const auto trifold = saved("TRIFOLD_CACHE"), xdg = saved("XDG_CACHE_HOME"), home = saved("HOME");
  ::setenv("TRIFOLD_CACHE", "/t", 1);
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(tuning_file(), "/t/tuning.jsonl");
  ::unsetenv("TRIFOLD_CACHE");
  EXPECT_EQ(tuning_file(), "/x/trifold/tuning.jsonl");
  ::setenv("XDG_CACHE_HOME", "", 1);
  EXPECT_EQ(tuning_file(), "/h/.cache/trifold/tuning.jsonl");
  ::unsetenv("HOME");
  EXPECT_EQ(tuning_file(), std::nullopt);
  restore("TRIFOLD_CACHE", trifold);
  restore("XDG_CACHE_HOME", xdg);
  restore("HOME", home);
}

// fastest_kernel(): kernels instead of functions.
struct FakeOp final : Op {
  std::string_view name() const override { return "fake"; }
  OpKind kind() const override { return OpKind::element_wise; }
};

class FakeKernel final : public Kernel {
 public:
  FakeKernel(std::string name, double cost_s, double* now_s, int* threads_seen)
      : name_(std::move(name)), cost_s_(cost_s), now_s_(now_s), threads_seen_(threads_seen) {}
  std::size_t scratch_bytes() const override { return 256; }
  std::string implementation() const override { return name_; }
  void run(const StepContext&) override {
    out(0)[9] = in(0)[9];
    scratch()[255] = std::byte{1};
    *now_s_ += cost_s_;
    *threads_seen_ = thread_count();
  }

 private:
  std::string name_;
  double cost_s_;
  double* now_s_;
  int* threads_seen_;
};

TEST_F(TunerTest, KernelsAreMeasuredOnMemoryOfTheirTensors) {
  Tuner tuner(options());
  const FakeOp op;
  const TensorDesc desc = {{10}};
  const KernelRequest request = {op, {&desc, 1}, {&desc, 1}, 1};
  int threads_seen = 0;
  std::vector<KernelPtr> kernels;
  kernels.push_back(std::make_unique<FakeKernel>("slow", 2, &now_s_, &threads_seen));
  kernels.push_back(std::make_unique<FakeKernel>("fast", 1, &now_s_, &threads_seen));
  const int threads_before = thread_count();
  EXPECT_EQ(fastest_kernel(tuner, request, std::move(kernels))->implementation(), "fast");
  EXPECT_EQ(threads_seen, 1);
  EXPECT_EQ(thread_count(), threads_before);
}

}  // namespace
}  // namespace trifold::cpu
