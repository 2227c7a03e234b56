#include "support/cluster_processes.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>

namespace trifold::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

std::string proc_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<int> members_of(int parent, const std::string& role) {
  std::vector<int> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string status = proc_text(entry.path() / "status");
    if (status.find(fmt::format("\nPPid:\t{}\n", parent)) == std::string::npos) continue;
    const std::string words = proc_text(entry.path() / "cmdline");
    if (words.find('\0' + role + '\0') != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

std::string command_line_of(int process) {
  return proc_text(fmt::format("/proc/{}/cmdline", process));
}

void wait_for_steps(RunningProgram& program, const fs::path& run) {
  const fs::path file = run / "metrics.jsonl";
  while (program.running() && (!fs::exists(file) || fs::file_size(file) < 500)) std::this_thread::sleep_for(1ms);
}

}  // namespace trifold::test
