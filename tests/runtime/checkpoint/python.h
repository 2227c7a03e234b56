// Runs a Python script, for tests that give our files to other people's readers.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/checkpoint/temporary_directory.h"

namespace trifold::testing {

struct PythonResult {
  int exit_status = -1;
  std::string output;  // standard output and standard error
};

inline PythonResult run_python(const std::string& script) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory / "script.py";
  write_file(file, script);
  // The sanitizers' runtime must not reach into the interpreter.
  const std::string command = "env -u LD_PRELOAD python3 " + file.string() + " 2>&1";
  PythonResult result;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    result.output.append(buffer.data(), got);
  }
  result.exit_status = pclose(pipe);
  return result;
}

inline bool python_imports(const std::string& modules) {
  return run_python("import " + modules).exit_status == 0;
}

}  // namespace trifold::testing
