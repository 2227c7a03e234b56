// gpusim_check_ptx a.ptx ...: parses and lowers every kernel, and lists what the engine does not know. Exit code 1 when
// there is anything.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "ptx/module.h"

namespace {

// The number of kernels that cannot be lowered; -1: the file cannot be parsed.
int check_file(const char* path) {
  std::ifstream in(path);
  if (!in) {
    std::printf("%s: cannot be read\n", path);
    return -1;
  }
  std::ostringstream text;
  text << in.rdbuf();
  int kernels = 0;
  int failures = 0;
  try {
    const auto module = gpusim::load_module(text.str(), 0);
    for (const auto& [name, function] : module->functions) {
      if (!function.is_entry) continue;
      ++kernels;
      try {
        gpusim::find_kernel(*module, name);
      } catch (const gpusim::PtxError& error) {
        ++failures;
        std::printf("%s: %s\n", path, error.text.c_str());
      }
    }
  } catch (const gpusim::PtxError& error) {
    std::printf("%s: %s\n", path, error.text.c_str());
    return -1;
  }
  std::printf("%s: %d of %d kernels lowered\n", path, kernels - failures, kernels);
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  bool all_good = true;
  for (int at = 1; at < argc; ++at) all_good &= check_file(argv[at]) == 0;
  return all_good ? 0 : 1;
}
