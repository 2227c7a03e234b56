// A process that saves checkpoints is killed at random moments, again and again: whatever it reported as saved, or
// something newer, must be there, whole.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using Clock = std::chrono::steady_clock;
using testing::TemporaryDirectory;

constexpr std::size_t kElements = 200'000;  // large enough for many kills to fall into a save
constexpr int kKept = 2;

// The step is in the tensor, so that a mixture of two saves would be seen.
void save(const std::filesystem::path& directory, std::int64_t step) {
  const std::vector<float> weight(kElements, static_cast<float>(step));
  TrainingState state;
  state.step = step;
  const std::vector<NamedTensor> tensors{{.name = "weight",
                                          .shape = {static_cast<std::int64_t>(kElements)},
                                          .dtype = DType::f32,
                                          .data = std::as_bytes(std::span(weight))}};
  save_checkpoint(directory, state, tensors);
}

bool holds_step(const Checkpoint& checkpoint) {
  const NamedTensor* const weight = checkpoint.contents.find("weight");
  if (weight == nullptr) return false;
  const std::span values(reinterpret_cast<const float*>(weight->data.data()), weight->data.size() / sizeof(float));
  return std::all_of(values.begin(), values.end(),
                     [&](float value) { return value == static_cast<float>(checkpoint.state.step); });
}

[[noreturn]] void save_until_killed(const std::filesystem::path& directory, std::int64_t first_step, int report) {
  try {
    for (std::int64_t step = first_step;; ++step) {
      save(directory, step);
      if (::write(report, &step, sizeof(step)) != sizeof(step)) ::_exit(2);
      prune(directory, kKept);
    }
  } catch (const std::exception&) {
    ::_exit(3);
  }
}

struct Killed {
  std::int64_t last_reported = -1;
  bool by_us = false;
};

Killed run_and_kill(const std::filesystem::path& directory, std::int64_t first_step, Clock::duration after) {
  std::array<int, 2> pipe_ends{};
  if (::pipe(pipe_ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no fork");
  if (child == 0) {
    ::close(pipe_ends[0]);
    save_until_killed(directory, first_step, pipe_ends[1]);
  }
  ::close(pipe_ends[1]);
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);

  Killed killed{.last_reported = first_step - 1, .by_us = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL};
  for (std::int64_t step = 0; ::read(pipe_ends[0], &step, sizeof(step)) == sizeof(step);) killed.last_reported = step;
  ::close(pipe_ends[0]);
  return killed;
}

TEST(CheckpointKill, NothingReportedAsSavedIsEverLost) {
  constexpr int kMinKills = 40;
  constexpr int kMaxKills = 200;
  constexpr auto kBudget = std::chrono::seconds(6);
  const TemporaryDirectory directory;
  save(directory.path(), 0);

  std::mt19937 random(20240229);
  std::uniform_int_distribution<int> after_us(0, 40'000);
  const auto begin = Clock::now();
  std::int64_t step = 0;
  int kills = 0;
  int kills_in_a_save = 0;
  for (; kills < kMinKills || (kills < kMaxKills && Clock::now() - begin < kBudget); ++kills) {
    const Killed killed = run_and_kill(directory.path(), step + 1, std::chrono::microseconds(after_us(random)));
    ASSERT_TRUE(killed.by_us) << "the saving process ended by itself";

    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      if (entry.path().filename().string().starts_with(".")) {
        ++kills_in_a_save;
        break;
      }
    }
    const LatestCheckpoint latest = latest_good(directory.path());
    ASSERT_TRUE(latest.checkpoint) << "after kill " << kills;
    EXPECT_GE(latest.checkpoint->state.step, killed.last_reported);
    EXPECT_TRUE(latest.skipped.empty()) << latest.skipped.front().reason;
    EXPECT_TRUE(holds_step(*latest.checkpoint));
    step = latest.checkpoint->state.step;
    prune(directory.path(), kKept);
    EXPECT_LE(testing::count_entries(directory.path()), static_cast<std::size_t>(kKept));
  }
  std::printf("%d kills, %d of them within a save, %lld steps saved\n", kills, kills_in_a_save,
              static_cast<long long>(step));
  EXPECT_GT(kills_in_a_save, 0) << "no kill came during a save: nothing was tested";
  EXPECT_GT(step, 0);
}

}  // namespace
}  // namespace trifold
