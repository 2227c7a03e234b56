#include "runtime/profile/kernel_alone.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>

#include "kernels/cpu/thread_scope.h"
#include "runtime/core/dummy_memory.h"

namespace trifold {
namespace {

constexpr int kAloneRuns = 3;  // after one that is not timed

bool is_product(const Node& node) {
  const std::string_view name = node.op->name();
  return name.starts_with("conv2d") || name.starts_with("linear");
}

std::string key_of(const Program& program, std::size_t index) {
  const Node& node = program.graph.nodes[index];
  std::string key = fmt::format("{} {}", to_string(*node.op), program.kernels[index]->implementation());
  for (const TensorDesc& desc : program.descs_of(node.in)) key += fmt::format(" <{}", to_string(desc));
  for (const TensorDesc& desc : program.descs_of(node.out)) key += fmt::format(" >{}", to_string(desc));
  return key;
}

void run_kernel(Kernel& kernel, const Program& program, const Node& node, std::vector<double>& runs_s) {
  std::vector<AlignedMemory> memory;
  const auto make = [&](const std::vector<ValueId>& ids) {
    std::vector<std::byte*> data;
    for (const TensorDesc& desc : program.descs_of(ids))
      data.push_back(memory.emplace_back(dummy_memory(desc.bytes())).data());
    return data;
  };
  const std::vector<std::byte*> in = make(node.in), out = make(node.out);
  const AlignedMemory scratch = dummy_memory(kernel.scratch_bytes());
  kernel.bind(in, out, scratch.data());
  for (int run = 0; run <= kAloneRuns; ++run) {
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
  std::set<std::string> done;
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const Node& node = program.graph.nodes[i];
    if (!program.kernels[i] || !is_product(node)) continue;
    const std::string key = key_of(program, i);
    if (done.insert(key).second) run_kernel(executable.lend(i), program, node, runs_s_[key]);
  }
}

double KernelsAlone::seconds(const Program& program, std::size_t node) const {
  if (!program.kernels[node] || !is_product(program.graph.nodes[node])) return 0;
  const auto found = runs_s_.find(key_of(program, node));
  if (found == runs_s_.end()) return 0;
  std::vector<double> sorted = found->second;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

}  // namespace trifold
