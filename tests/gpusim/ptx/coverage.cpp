// Lines of kernels that ran, as an lcov tracefile. A line counts as often as its most executed instruction in a kernel,
// summed over kernels; kernels that were never launched count with zero.
#include <algorithm>
#include <fstream>
#include <map>

#include "ptx/lowered_kernel.h"

namespace gpusim {
namespace {

using LineHits = std::map<int, std::uint64_t>;

void add_kernel(const PtxKernel& kernel, std::map<std::string, LineHits>& files) {
  std::map<std::pair<int, int>, std::uint64_t> lines;
  for (std::size_t at = 0; at < kernel.code.size(); ++at) {
    const ptx::SourceLine& source = kernel.origins[at].source;
    if (source.line == 0) continue;
    std::uint64_t& hits = lines[{source.file, source.line}];
    hits = std::max(hits, kernel.hits[at]);
  }
  for (const auto& [place, hits] : lines) {
    const auto file = kernel.module->tokenized.files.find(place.first);
    if (file != kernel.module->tokenized.files.end()) files[file->second][place.second] += hits;
  }
}

}  // namespace

void write_coverage(std::span<PtxModule* const> modules, const std::string& file) {
  std::map<std::string, LineHits> files;
  for (PtxModule* module : modules) {
    for (const auto& [name, function] : module->functions) {
      if (!function.is_entry) continue;
      try {
        if (const PtxKernel* kernel = find_kernel(*module, name)) add_kernel(*kernel, files);
      } catch (const PtxError&) {
        // It cannot be lowered, so it cannot have run either; launching it says why.
      }
    }
  }
  std::ofstream out(file);
  for (const auto& [name, lines] : files) {
    out << "TN:\nSF:" << name << '\n';
    std::size_t hit = 0;
    for (const auto& [line, hits] : lines) {
      out << "DA:" << line << ',' << hits << '\n';
      hit += hits > 0 ? 1 : 0;
    }
    out << "LF:" << lines.size() << "\nLH:" << hit << "\nend_of_record\n";
  }
}

}  // namespace gpusim
