// The tree explains itself only as long as includes keep to it: a folder includes from those below it, folders of one
// level do not include each other in circles, and a vendor's header stays in the folder that wraps it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/paths.h"

namespace trifold::test {
namespace {

namespace fs = std::filesystem;

// From the lowest to the highest. tools/trifold is above all of them.
const std::vector<std::string> kLevels = {"core", "kernels", "layers", "parallel", "runtime", "insight"};

// Folders in which each has a subject of its own, so that they can be ordered.
const std::vector<std::string> kOrderedParents = {"runtime", "insight"};

struct VendorHeader {
  std::string begins;                // of the header's name
  std::vector<std::string> folders;  // below src; files of these may include it
};
const std::vector<VendorHeader> kVendorHeaders = {
    {"cuda", {"core/cuda", "kernels/cuda", "parallel/communicator/nccl", "parallel/data/cuda", "parallel/tensor/cuda"}},
    {"cublas", {"core/cuda", "kernels/cuda"}},
    {"cudnn", {"core/cuda", "kernels/cuda"}},
    {"cupti", {"core/cuda"}},
    {"nvtx3", {"core/cuda"}},
    {"nccl", {"parallel/communicator/nccl", "parallel/data/cuda", "parallel/tensor/cuda"}},
    {"mpi.h", {"parallel/communicator/mpi"}},
    {"dnnl", {"kernels/cpu"}},
    {"zmq", {"parallel/servers/wire"}},
    {"curl/", {"parallel/servers/registry"}},
    {"xxh", {"parallel/servers", "runtime/checkpoint"}},
    {"zstd", {"parallel/servers/wire"}},
    {"curses", {"insight/live"}},
    {"ncurses", {"insight/live"}},
    {"png", {"runtime/data"}},
    {"jpeglib", {"runtime/data"}},
    {"turbojpeg", {"runtime/data"}},
    {"zlib", {"runtime/data"}},
    {"google/protobuf", {"insight/metrics", "runtime/onnx"}},
};

struct Include {
  std::string file;  // below src, that has it
  std::string name;
  bool ours = false;  // "..." and not <...>
};

std::string top_of(const std::string& path) {
  return path.substr(0, path.find('/'));
}

std::vector<Include> includes_of_line(const std::string& file, const std::string& line) {
  constexpr std::string_view kDirective = "#include ";
  if (!line.starts_with(kDirective) || line.size() < kDirective.size() + 2) return {};
  const bool ours = line[kDirective.size()] == '"';
  const std::size_t begin = kDirective.size() + 1;
  const std::size_t end = line.find(ours ? '"' : '>', begin);
  if (end == std::string::npos) return {};
  return {{file, line.substr(begin, end - begin), ours}};
}

std::vector<Include> all_includes() {
  std::vector<Include> found;
  const fs::path root = fs::path(source_dir()) / "src";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    static const std::set<std::string> kSources = {".h", ".cpp", ".cu", ".cuh"};
    if (!entry.is_regular_file() || !kSources.contains(entry.path().extension())) continue;
    std::ifstream file(entry.path());
    const std::string name = fs::relative(entry.path(), root).generic_string();
    for (std::string line; std::getline(file, line);)
      for (Include& include : includes_of_line(name, line)) found.push_back(std::move(include));
  }
  return found;
}

// What is wrong with an include, seen alone; "" nothing.
std::string fault_of(const Include& include) {
  if (include.ours) {
    const auto level = [](const std::string& path) {
      return std::ranges::find(kLevels, top_of(path)) - kLevels.begin();
    };
    if (level(include.name) == std::ssize(kLevels) || level(include.name) <= level(include.file)) return "";
    return fmt::format("src/{} includes {}, which is above it", include.file, include.name);
  }
  for (const VendorHeader& header : kVendorHeaders) {
    if (!include.name.starts_with(header.begins)) continue;
    const auto wraps = [&](const std::string& folder) { return include.file.starts_with(folder + "/"); };
    if (std::ranges::none_of(header.folders, wraps))
      return fmt::format("src/{} includes <{}>, which only {} may", include.file, include.name,
                         fmt::join(header.folders, ", "));
  }
  return "";
}

// Folders of one parent that include each other in a circle: "runtime/config -> runtime/train -> runtime/config".
std::string circle_among(const std::map<std::string, std::set<std::string>>& edges) {
  std::vector<std::string> path;
  std::set<std::string> done;
  std::string found;
  const auto visit = [&](const auto& self, const std::string& folder) -> void {
    if (!found.empty() || done.contains(folder)) return;
    if (const auto again = std::ranges::find(path, folder); again != path.end()) {
      std::vector<std::string> circle(again, path.end());
      circle.push_back(folder);
      found = fmt::format("{}", fmt::join(circle, " -> "));
      return;
    }
    path.push_back(folder);
    if (const auto next = edges.find(folder); next != edges.end())
      for (const std::string& to : next->second) self(self, to);
    path.pop_back();
    done.insert(folder);
  };
  for (const auto& [folder, to] : edges) visit(visit, folder);
  return found;
}

std::map<std::string, std::set<std::string>> edges_among(const std::vector<Include>& includes) {
  std::map<std::string, std::set<std::string>> edges;
  for (const Include& include : includes) {
    // The folder right below an ordered parent: "runtime/config".
    const auto part = [](const std::string& path) -> std::string {
      const std::string top = top_of(path);
      if (std::ranges::find(kOrderedParents, top) == kOrderedParents.end()) return "";
      const std::size_t end = path.find('/', top.size() + 1);
      return end == std::string::npos ? "" : path.substr(0, end);
    };
    const std::string from = part(include.file);
    const std::string to = part(include.name);
    if (!from.empty() && !to.empty() && from != to) edges[from].insert(to);
  }
  return edges;
}

TEST(Includes, PointDownwards) {
  const std::vector<Include> includes = all_includes();
  ASSERT_GT(includes.size(), 2000u) << "the sources were not found";
  for (const Include& include : includes) EXPECT_EQ(fault_of(include), "");
}

TEST(Includes, MakeNoCircleOfFolders) {
  const auto edges = edges_among(all_includes());
  ASSERT_GT(edges.size(), 5u);
  EXPECT_EQ(circle_among(edges), "");
}

TEST(Includes, OfTheWrongKindAreFound) {
  const auto fault = [](const std::string& file, const std::string& line) {
    return fault_of(includes_of_line(file, line).at(0));
  };
  EXPECT_EQ(fault("layers/relu.cpp", "#include \"parallel/mesh.h\""),
            "src/layers/relu.cpp includes parallel/mesh.h, which is above it");
  EXPECT_EQ(fault("runtime/train/trainer.cpp", "#include <zmq.hpp>"),
            "src/runtime/train/trainer.cpp includes <zmq.hpp>, which only parallel/servers/wire may");
  EXPECT_EQ(fault("insight/live/screen.cpp", "#include <curses.h>"), "");
  EXPECT_EQ(fault("runtime/train/trainer.cpp", "#include \"core/error.h\""), "");
  EXPECT_EQ(
      circle_among(edges_among({{"runtime/a/x.h", "runtime/b/y.h", true}, {"runtime/b/y.h", "runtime/a/x.h", true}})),
      "runtime/a -> runtime/b -> runtime/a");
}

}  // namespace
}  // namespace trifold::test
