#include "insight/profile/gpu_rows.h"

#include <algorithm>

#include "insight/work/traffic.h"

namespace trifold {
namespace {

bool is_half(const Program& program, const Node& node) {
  if (node.in.empty()) return false;
  const DType type = program.descs[static_cast<std::size_t>(node.in[0])].dtype;
  return type == DType::f16 || type == DType::bf16;
}

double exchanged_bytes(const Program& program, const Node& node) {
  const auto size = [&](const std::vector<ValueId>& ids) {
    return ids.empty() ? 0.0 : static_cast<double>(program.descs[static_cast<std::size_t>(ids[0])].bytes());
  };
  return std::max(size(node.in), size(node.out));
}

int threads_of(const std::array<int, 3>& block) {
  return block[0] * block[1] * block[2];
}

}  // namespace

double busy_ms(std::vector<std::pair<std::uint64_t, std::uint64_t>> spans) {
  std::ranges::sort(spans);
  std::uint64_t busy_ns = 0;
  std::uint64_t until = 0;
  for (const auto& [begin, end] : spans) {
    if (end > until) busy_ns += end - std::max(begin, until);
    until = std::max(until, end);
  }
  return static_cast<double>(busy_ns) / 1e6;
}

void GpuRows::Line::add(double ms) {
  least = seen == 0 ? ms : std::min(least, ms);
  most = std::max(most, ms);
  total += ms;
  ++seen;
}

GpuRows::GpuRows(const ParallelModel& model, bool timed, const GpuSpec* gpu)
    : model_(model), timed_(timed), gpu_(gpu), busy_ms_(static_cast<std::size_t>(model.plan().mesh.size())) {}

void GpuRows::note(const DeviceActivity& activity, GpuFigures& figures) const {
  using Kind = DeviceActivity::Kind;
  if (activity.kind == Kind::work) return;  // nothing is known but its time
  if (activity.kind != Kind::kernel) {
    ++figures.copies;
    figures.copied_bytes += static_cast<double>(activity.bytes);
    return;
  }
  GpuKernel launch{.name = activity.name,
                   .launches = 1,
                   .counted = activity.counts ? 1 : 0,
                   .grid = activity.grid,
                   .block = activity.block,
                   .registers = activity.registers,
                   .shared_bytes = activity.shared_bytes,
                   .total_ms = timed_ ? activity.ms() : 0,
                   .counts = activity.counts.value_or(LaunchCounts{})};
  if (gpu_ != nullptr)
    launch.occupancy = occupancy_of(*gpu_, {.threads = threads_of(activity.block),
                                            .registers = activity.registers,
                                            .shared_bytes = activity.shared_bytes});
  figures.kernel(activity.name) += launch;
}

void GpuRows::add_step(std::span<const SpanLog> ranks, std::span<const DeviceActivity> activities) {
  ++steps_;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Span& span : ranks[rank].spans())
      if (span.kind == Span::Kind::node) ++nodes_[{static_cast<int>(rank), span.chunk, span.node}].calls;
  std::map<std::uint64_t, double> by_tag;  // ms of one call
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> busy(ranks.size());
  for (const DeviceActivity& activity : activities) {
    busy[static_cast<std::size_t>(activity.device)].emplace_back(activity.begin_ns, activity.end_ns);
    if (activity.tag == 0) {
      Line& line = rest_[{activity.device, activity.kind}];
      ++line.calls;
      line.add(activity.ms());
      note(activity, line.figures);
      continue;
    }
    const WorkTag tag = WorkTag::of(activity.tag);
    note(activity, nodes_[{tag.rank, tag.chunk, tag.node}].figures);
    by_tag[activity.tag] += activity.ms();
  }
  for (const auto& [packed, ms] : by_tag) {
    const WorkTag tag = WorkTag::of(packed);
    nodes_[{tag.rank, tag.chunk, tag.node}].add(ms);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) busy_ms_[rank] += busy_ms(std::move(busy[rank]));
}

// The times that were measured, or those that the limits of the named GPU would allow.
void GpuRows::finish(ProfileRow& row, const Line& line, GpuWork work) const {
  const GpuKernel all = line.figures.all();
  work.launches = static_cast<double>(all.launches);
  work.warp_instructions = all.counts.warp_instructions;
  row.calls = line.calls;
  row.gpu = line.figures;
  const GpuLimit limit = gpu_ == nullptr ? GpuLimit{} : limit_of(*gpu_, work);
  row.roof_ms = limit.roof_ms;
  row.bound = limit.bound;
  if (!timed_) {
    row.total_ms = limit.ms;
    row.min_ms = row.max_ms = row.mean_ms();
    return;
  }
  row.total_ms = line.total;
  row.min_ms = line.least;
  row.max_ms = line.most;
}

ProfileRow GpuRows::row_of(const NodeKey& key, const Line& line) const {
  const Program& program = model_.chunks(key.rank)[static_cast<std::size_t>(key.chunk)]->training().program();
  const auto index = static_cast<std::size_t>(key.node);
  const Node& node = program.graph.nodes[index];
  ProfileRow row{.name = std::string(node.op->name()),
                 .kind = node.op->kind(),
                 .implementation = program.kernels[index]->implementation(),
                 .layer = node.layer < 0 ? "" : program.graph.layers[static_cast<std::size_t>(node.layer)].id,
                 .phase = phase_name(node),
                 .rank = key.rank};
  const auto calls = static_cast<double>(line.calls);
  GpuWork work;
  if (exchange_of(node) != nullptr) {
    row.bytes = calls * exchanged_bytes(program, node);
    work.link_bytes = row.bytes;
  } else {
    row.flops = calls * program.flops(node);
    row.bytes = calls * program.bytes_moved(node);
    work.flops = row.flops;
    work.bytes = row.bytes;
    work.tensor_cores = is_product(node.op->kind()) && is_half(program, node);
  }
  finish(row, line, work);
  if (timed_ && exchange_of(node) != nullptr) row.bound = "waiting";
  return row;
}

ProfileRow GpuRows::row_of_rest(int rank, DeviceActivity::Kind kind, const Line& line) const {
  using Kind = DeviceActivity::Kind;
  ProfileRow row{.phase = "input", .rank = rank, .bytes = line.figures.copied_bytes};
  GpuWork work;
  switch (kind) {
    case Kind::copy_in:
      row.name = "copy to the GPU";
      work.host_bytes = row.bytes;
      break;
    case Kind::copy_out:
      row.name = "copy to the host";
      row.phase = "host";
      work.host_bytes = row.bytes;
      break;
    case Kind::copy:
      row.name = "copy batch";
      work.bytes = 2 * row.bytes;  // read and written
      break;
    default:
      row.name = "outside of nodes";
      row.phase = "host";
  }
  finish(row, line, work);
  return row;
}

std::vector<ProfileRow> GpuRows::rows(double wall_ms) const {
  std::vector<ProfileRow> rows;
  for (const auto& [key, line] : nodes_) rows.push_back(row_of(key, line));
  for (const auto& [key, line] : rest_) rows.push_back(row_of_rest(key.first, key.second, line));
  if (timed_)
    for (std::size_t rank = 0; rank < busy_ms_.size(); ++rank) {
      const double idle = std::max(0.0, wall_ms - busy_ms_[rank]);
      rows.push_back({.name = "idle",
                      .phase = "idle",
                      .rank = static_cast<int>(rank),
                      .calls = steps_,
                      .total_ms = idle,
                      .min_ms = idle / steps_,
                      .max_ms = idle / steps_,
                      .bound = "waiting"});
    }
  std::ranges::stable_sort(rows, std::greater(), &ProfileRow::total_ms);
  return rows;
}

}  // namespace trifold
