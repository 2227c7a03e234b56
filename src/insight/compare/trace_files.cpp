#include "insight/compare/trace_files.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace trifold {

std::vector<std::string> trace_files_of(const std::vector<std::string>& plans) {
  constexpr std::size_t kLongest = 100;  // of a plan's name, far below what file systems allow
  std::vector<std::string> files;
  for (std::string name : plans) {
    for (char& each : name)
      if (std::isalnum(static_cast<unsigned char>(each)) == 0 && std::string("=,._-").find(each) == std::string::npos)
        each = '_';
    name.resize(std::min(name.size(), kLongest));
    std::string file = fmt::format("trace-{}.json", name);
    for (int again = 2; std::ranges::find(files, file) != files.end(); ++again)
      file = fmt::format("trace-{}-{}.json", name, again);
    files.push_back(file);
  }
  return files;
}

}  // namespace trifold
