// The processes of a cluster that `trifold train` has started, for tests that disturb them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/program.h"

namespace trifold::test {

// Processes below `parent`, by the first word after the program's name: "server", "worker".
std::vector<int> members_of(int parent, const std::string& role);

std::string command_line_of(int process);  // its words, each with a zero behind it

// Until a few steps of the run in this folder are done, or the program has ended.
void wait_for_steps(RunningProgram& program, const std::filesystem::path& run);

}  // namespace trifold::test
