#include "insight/profile/kernel_alone.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <span>

#include <fmt/format.h>
#include <unistd.h>

#include "core/dummy_memory.h"
#include "core/parallel.h"
#include "kernels/cpu/thread_scope.h"

namespace trifold {
namespace {

constexpr int kAloneRuns = 3;   // after one that is not timed
constexpr int kJustBefore = 2;  // nodes

std::string key_of(const Program& program, std::size_t index) {
  const Node& node = program.graph.nodes[index];
  std::string key = fmt::format("{} {}", to_string(*node.op), program.kernels[index]->implementation());
  for (const TensorDesc& desc : program.descs_of(node.in)) key += fmt::format(" <{}", to_string(desc));
  for (const TensorDesc& desc : program.descs_of(node.out)) key += fmt::format(" >{}", to_string(desc));
  return key;
}

// What a step leaves of a kernel's memory in the caches: what the nodes just before it made, and the scratch memory,
// which is everybody's.
class StepCaches {
 public:
  StepCaches() : others_(dummy_memory(2 * last_level_bytes())) {}

  void leave(std::span<const AlignedMemory* const> just_made) {
    read(others_);
    for (const AlignedMemory* memory : just_made) write(*memory);
  }

 private:
  static std::size_t last_level_bytes() {
    const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{32} << 20;
  }
  // On the cores that share the kernels' work. What is only read need not be written back while the kernel runs.
  void read(const AlignedMemory& memory) {
    const auto* values = reinterpret_cast<const float*>(memory.data());
    parallel([&](int thread, int threads) {
      const Range range = share(static_cast<std::int64_t>(memory.bytes() / sizeof(float)), thread, threads);
      float sum = 0;
      for (std::int64_t i = range.begin; i < range.end; i += kFloatsOfALine) sum += values[i];
      if (sum == kNoSum) seen_ = sum;  // so that reading is not left out
    });
  }
  static void write(const AlignedMemory& memory) {
    auto* values = reinterpret_cast<float*>(memory.data());
    parallel_for(static_cast<std::int64_t>(memory.bytes() / sizeof(float)), [&](Range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i) values[i] = -values[i];
    });
  }

  static constexpr std::int64_t kFloatsOfALine = 16;
  static constexpr float kNoSum = -1e30f;
  volatile float seen_ = 0;
  AlignedMemory others_;
};

// Was the value made by the node, or by one of the two before it?
bool just_made(const Program& program, std::size_t node, ValueId value) {
  int back = 0;
  for (std::size_t i = node; i-- > 0 && back < kJustBefore;) {
    if (!program.kernels[i]) continue;  // a view
    ++back;
    if (std::ranges::count(program.graph.nodes[i].out, value) > 0) return true;
  }
  return false;
}

void run_kernel(Kernel& kernel, const Program& program, std::size_t index, StepCaches& caches,
                std::vector<double>& runs_s) {
  const Node& node = program.graph.nodes[index];
  std::vector<AlignedMemory> in, out;
  std::vector<std::byte*> in_data, out_data;
  std::vector<const AlignedMemory*> recent;
  for (const TensorDesc& desc : program.descs_of(node.in))
    in_data.push_back(in.emplace_back(dummy_memory(desc.bytes())).data());
  for (const TensorDesc& desc : program.descs_of(node.out))
    out_data.push_back(out.emplace_back(dummy_memory(desc.bytes())).data());
  for (std::size_t i = 0; i < node.in.size(); ++i)
    if (just_made(program, index, node.in[i])) recent.push_back(&in[i]);
  const AlignedMemory scratch = dummy_memory(kernel.scratch_bytes());
  recent.insert(recent.begin(), &scratch);
  kernel.bind(in_data, out_data, scratch.data());
  for (int run = 0; run <= kAloneRuns; ++run) {
    caches.leave(recent);
    const auto begin = Span::Clock::now();
    kernel.run({});
    const double seconds = std::chrono::duration<double>(Span::Clock::now() - begin).count();
    if (run > 0) runs_s.push_back(seconds);
  }
}

}  // namespace

void KernelsAlone::run(Executable& executable) {
  const cpu::ThreadScope scope(threads_);
  const Program& program = executable.program();
  StepCaches caches;
  std::set<std::string> done;
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const Node& node = program.graph.nodes[i];
    if (!program.kernels[i] || !is_product(node.op->kind())) continue;
    const std::string key = key_of(program, i);
    if (done.insert(key).second) run_kernel(executable.lend(i), program, i, caches, runs_s_[key]);
  }
}

double KernelsAlone::seconds(const Program& program, std::size_t node) const {
  if (!program.kernels[node] || !is_product(program.graph.nodes[node].op->kind())) return 0;
  const auto found = runs_s_.find(key_of(program, node));
  if (found == runs_s_.end()) return 0;
  std::vector<double> sorted = found->second;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

}  // namespace trifold
