// Every bug of planted_bugs.cu is run in a process of its own, and exactly the expected finding has to be reported, in
// lazy and in eager order, with the kernel, block, thread and source line where there are any.
#include <array>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace {

struct Planted {
  std::string name;
  std::string finding;                  // empty: none
  std::vector<std::string> parts = {};  // of the report's text
  std::string environment = {};
};
std::ostream& operator<<(std::ostream& out, const Planted& planted) {
  return out << planted.name;
}

struct Outcome {
  int exit_code = -1;
  std::vector<std::string> reports;  // "finding: text"
  std::string output;
};

Outcome run(const std::string& command) {
  Outcome result;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 65536> line;
  const std::string prefix = "gpusim: ";
  while (fgets(line.data(), line.size(), pipe)) {
    const std::string text(line.data());
    result.output += text;
    const bool is_report = text.starts_with(prefix) && text.find(": ", prefix.size()) != std::string::npos;
    if (is_report) result.reports.push_back(text.substr(prefix.size()));
  }
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

// "planted_bugs.cu:12" of the line that is marked with the bug's name.
std::string place_of(const std::string& name) {
  std::ifstream source(GPUSIM_PLANTED_BUGS_SOURCE);
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    const auto mark = line.find("// BUG " + name);
    if (mark == std::string::npos) continue;
    const auto end = mark + 7 + name.size();
    if (end == line.size() || line[end] == ':') return "planted_bugs.cu:" + std::to_string(number);
  }
  return "no line of planted_bugs.cu is marked with " + name;
}

std::vector<Planted> catalogue() {
  // A bug inside a kernel: the report names the kernel, the block, the thread and the marked line.
  const auto in_kernel = [](const std::string& name, const std::string& finding, const std::string& block,
                            const std::string& thread) {
    return Planted{
        name, finding, {"kernel (anonymous namespace)::" + name, "block " + block, "thread " + thread, place_of(name)}};
  };
  const std::string two_devices = "GPUSIM_DEVICES=2";
  const std::string quick_to_despair = "GPUSIM_BRANCH_LIMIT=1";
  return {
      {"clean", ""},
      {"clean", "", {}, "GPUSIM_STRICT=1 GPUSIM_LEAKS=1"},
      in_kernel("write_past_the_end", "out_of_bounds", "(7,0,0)", "(104,0,0)"),
      in_kernel("read_past_the_end", "out_of_bounds", "(7,0,0)", "(103,0,0)"),
      in_kernel("read_before_the_beginning", "out_of_bounds", "(0,0,0)", "(0,0,0)"),
      in_kernel("shared_past_the_end", "out_of_bounds", "(0,0,0)", "(31,0,0)"),
      in_kernel("local_past_the_end", "out_of_bounds", "(0,0,0)", "(0,0,0)"),
      in_kernel("misaligned_vector", "misaligned", "(0,0,0)", "(0,0,0)"),
      in_kernel("uninitialised_shared", "uninitialised_read", "(0,0,0)", "(32,0,0)"),
      {"uninitialised_global", "uninitialised_read", {"kernel (anonymous namespace)::add", "4000-byte block"}},
      {"uninitialised_copy", "uninitialised_read", {"cudaMemcpy device to host"}},
      {"shared_race", "shared_memory_race", {"::shared_race", "block (0,0,0)", "thread (", "planted_bugs.cu:"}},
      {"block_race", "block_race", {"block_race", place_of("block_race")}},
      {"divergent_barrier", "divergent_barrier", {"divergent_barrier", "block (0,0,0)"}},
      {"grid_barrier_without_fence",
       "block_race",
       {"::grid_barrier_without_fence", "without anything that orders the two",
        place_of("grid_barrier_without_fence")}},
      {"grid_barrier_that_a_block_skips",
       "deadlock",
       {"::grid_barrier_that_a_block_skips", "1 of its 8 blocks have ended", "block (", place_of("grid_barrier")},
       quick_to_despair},
      {"grid_barrier_in_a_plain_launch",
       "deadlock",
       {"::meet", "blocks run in order", "block (0,0,0)", place_of("grid_barrier")},
       quick_to_despair},
      {"cooperative_grid_too_large", "invalid_launch", {"::meet", "33 blocks", "32 at once"}},
      {"block_too_large", "invalid_launch", {"set", "(2048,1,1)"}},
      {"empty_grid", "invalid_launch", {"set", "grid (0,1,1)"}},
      {"too_much_shared_memory", "invalid_launch", {"much_dynamic_shared", "60000", "49152"}},
      {"launch_after_free", "use_after_free", {"kernel (anonymous namespace)::set", "freed", "thread (0,0,0)"}},
      {"freed_in_stream_order_and_used", "use_after_free", {"set", "freed"}},
      {"freed_while_another_stream_uses_it", "stream_race", {"cudaFreeAsync", "set"}},
      {"freed_without_waiting", "use_after_free", {"cudaFree", "set", "has not waited"}, "GPUSIM_STRICT=1"},
      {"freed_without_waiting", ""},  // every driver waits
      {"double_free", "double_free", {"cudaFree"}},
      {"free_of_the_middle", "invalid_call", {"cudaFree", "4 bytes into"}},
      {"free_of_host_memory", "invalid_call", {"cudaFree", "host memory"}},
      {"double_free_of_pinned", "double_free", {"cudaFreeHost"}},
      {"host_pointer_in_kernel", "host_pointer_in_kernel", {"set", "thread (0,0,0)"}},
      {"null_pointer_in_kernel", "host_pointer_in_kernel", {"set", "null pointer", "thread (0,0,0)"}},
      {"device_pointer_on_host",
       "device_pointer_on_host",
       {"the host writes", "12 bytes into", "gpusim_planted_bugs+0x"}},
      {"two_writers_without_event", "stream_race", {"write by 'kernel (anonymous namespace)::set'"}},
      {"reader_without_event", "stream_race", {"::add'", "::set'"}},
      {"overwritten_while_read", "stream_race", {"::add'", "::set'"}},
      {"copy_without_event", "stream_race", {"::add'", "'cudaMemcpyAsync host to device'"}},
      {"event_recorded_too_early", "stream_race", {"::add'", "::set'"}},
      {"memset_is_asynchronous", "stream_race", {"'cudaMemset'", "::add'"}},
      {"pinned_buffer_of_two_streams", "stream_race", {"pinned host memory"}},
      {"host_reads_too_early", "host_race", {"the host reads", "gpusim_planted_bugs+0x"}},
      {"host_reads_before_another_streams_copy", "host_race", {"the host reads"}},
      {"host_overwrites_source", "host_race", {"the host writes"}},
      {"pinned_after_free", "use_after_free", {"freed 4000-byte pinned block"}},
      {"wrong_direction", "invalid_call", {"device to host, but the pointers are host to device"}},
      {"copy_past_the_end", "out_of_bounds", {"cudaMemcpyAsync: destination", "0 bytes past the end"}},
      {"copy_past_the_end_of_the_device_block", "out_of_bounds", {"cudaMemcpy: destination"}},
      {"memset_past_the_end", "out_of_bounds", {"cudaMemsetAsync"}},
      {"capture_never_ends_well", "invalid_call", {"cudaStreamSynchronize", "captures"}},
      {"allocation_in_capture", "invalid_call", {"cudaMalloc", "captures"}},
      {"pageable_copy_in_capture", "invalid_call", {"cudaMemcpyAsync", "captured"}},
      {"race_inside_a_graph", "stream_race", {"::add'", "::set'"}},
      {"launch_on_destroyed_stream", "invalid_call", {"kernel launch", "destroyed"}},
      {"record_destroyed_event", "invalid_call", {"cudaEventRecord", "destroyed"}},
      {"event_of_another_device", "invalid_call", {"device 0", "device 1"}, two_devices},
      {"launch_into_a_stream_of_another_device", "invalid_call", {"device 1 into a stream of device 0"}, two_devices},
      {"no_peer_access", "peer_access", {"set", "device 1"}, two_devices},
      {"leaked_memory", "leak", {"4000 bytes from cudaMalloc"}, "GPUSIM_LEAKS=1"},
      {"leaked_memory", ""},
      {"api_in_host_function", "invalid_call", {"cudaDeviceSynchronize", "host function"}},
  };
}

class PlantedBugs : public testing::TestWithParam<std::tuple<Planted, std::string>> {};

TEST_P(PlantedBugs, ExactlyTheExpectedFinding) {
  const auto& [planted, order] = GetParam();
  const Outcome result =
      run("GPUSIM_ORDER=" + order + " " + planted.environment + " " GPUSIM_PLANTED_BUGS " " + planted.name);
  if (planted.finding.empty()) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(result.output, "");
    return;
  }
  EXPECT_EQ(result.exit_code, 86) << result.output;
  ASSERT_EQ(result.reports.size(), 1u) << result.output;
  EXPECT_TRUE(result.reports[0].starts_with(planted.finding + ": ")) << result.reports[0];
  for (const auto& part : planted.parts) {
    EXPECT_NE(result.reports[0].find(part), std::string::npos) << "no \"" << part << "\" in " << result.reports[0];
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugs,
                         testing::Combine(testing::ValuesIn(catalogue()), testing::Values("lazy", "eager")),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::get<1>(test.param) + "_" +
                                  std::to_string(test.index);
                         });

// A catalogue that nobody checks is no use: each bug of the program is expected above.
TEST(PlantedBugsCatalogue, EveryBugIsExpected) {
  const Outcome listed = run(GPUSIM_PLANTED_BUGS " list");
  std::string name;
  for (const char c : listed.output) {
    if (c != '\n') {
      name += c;
      continue;
    }
    bool expected = false;
    for (const auto& planted : catalogue()) expected = expected || planted.name == name;
    EXPECT_TRUE(expected) << name;
    name.clear();
  }
}

}  // namespace
