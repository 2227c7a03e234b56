// Profiles of GPUs for people and for programs. Where nothing was timed, every time is an estimate and says so.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "insight/profile/profile.h"

namespace trifold {
namespace {

using TableJson = nlohmann::ordered_json;

// A row of texts, laid out when all are known.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heads) { lines_.push_back(std::move(heads)); }
  void add(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }
  // Numbers to the right; the first column and the last, which are words, to the left.
  std::string text() const {
    std::vector<std::size_t> widths(lines_.front().size());
    for (const auto& line : lines_)
      for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    std::string text;
    for (const auto& line : lines_) {
      text += fmt::format("{:<{}}", line.front(), widths.front());
      for (std::size_t i = 1; i + 1 < line.size(); ++i) text += fmt::format("  {:>{}}", line[i], widths[i]);
      text += fmt::format("  {}\n", line.back());
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> lines_;
};

// "12.3M"; "-" of nothing.
std::string short_count(double value) {
  if (value == 0) return "-";
  if (value >= 1e9) return fmt::format("{:.1f}G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string or_dash(const char* format, double value) {
  return value > 0 ? fmt::format(fmt::runtime(format), value) : std::string("-");
}

std::string size_text(const std::array<int, 3>& size) {
  if (size[0] == 0) return "-";
  if (size[2] > 1) return fmt::format("{}x{}x{}", size[0], size[1], size[2]);
  return size[1] > 1 ? fmt::format("{}x{}", size[0], size[1]) : fmt::format("{}", size[0]);
}

std::string name_of(const Profile& profile, const ProfileRow& row, ProfileGroup group) {
  if (group == ProfileGroup::layer) return row.layer;
  if (group == ProfileGroup::phase) return row.phase;
  if (group == ProfileGroup::rank) return fmt::format("rank {}", row.rank);
  std::string name = row.name + (row.implementation.empty() ? "" : " " + row.implementation);
  if (group == ProfileGroup::none)
    name = fmt::format("{}{}{}", profile.ranks > 1 ? fmt::format("{}: ", row.rank) : "",
                       row.layer.empty() ? "" : row.layer + " ", name);
  return name;
}

const char* head_of(ProfileGroup group) {
  return group == ProfileGroup::layer ? "layer" : group == ProfileGroup::phase ? "phase" : "kernel";
}

// What is counted of a launch, as cells.
std::vector<std::string> count_heads() {
  return {"warp instr", "lanes", "rd sectors", "wr sectors", "x ideal", "conflicts", "occup."};
}
std::vector<std::string> count_cells(const GpuKernel& all) {
  const LaunchCounts& counts = all.counts;
  return {short_count(counts.warp_instructions),
          or_dash("{:.0f} %", lane_percent(counts)),
          short_count(counts.read_sectors),
          short_count(counts.write_sectors),
          or_dash("{:.2f}", sectors_by_ideal(counts)),
          all.counted == 0               ? "-"
          : counts.shared_conflicts == 0 ? "0"
                                         : short_count(counts.shared_conflicts),
          or_dash("{:.0f} %", 100 * all.occupancy)};
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b,
                                const std::vector<std::string>& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

TextTable simulated_table(const Profile& profile, const std::vector<ProfileRow>& rows, ProfileGroup group) {
  TextTable table(joined({head_of(group), "calls", "launches"}, count_heads(),
                         {"FLOP", "bytes", "FLOP/B", "est. ms", "est. share", "est. roof", "est. bound"}));
  for (const ProfileRow& row : rows) {
    const GpuKernel all = row.gpu.all();
    table.add(joined(
        {name_of(profile, row, group), std::to_string(row.calls), short_count(static_cast<double>(all.launches))},
        count_cells(all),
        {short_count(row.flops), short_count(row.bytes), or_dash("{:.1f}", row.intensity()),
         fmt::format("{:.4f}", row.total_ms), fmt::format("{:.1f} %", 100 * row.total_ms / profile.all_ms()),
         or_dash("{:.0f} %", row.roof_percent()), row.bound}));
  }
  return table;
}

TextTable timed_table(const Profile& profile, const std::vector<ProfileRow>& rows, ProfileGroup group) {
  TextTable table({head_of(group), "calls", "launches", "total ms", "mean", "min", "max", "share", "GFLOP/s", "GB/s",
                   "FLOP/B", "roof", "occup.", "bound"});
  for (const ProfileRow& row : rows) {
    const GpuKernel all = row.gpu.all();
    table.add({name_of(profile, row, group), std::to_string(row.calls), short_count(static_cast<double>(all.launches)),
               fmt::format("{:.2f}", row.total_ms), fmt::format("{:.4f}", row.mean_ms()),
               fmt::format("{:.4f}", row.min_ms), fmt::format("{:.4f}", row.max_ms),
               fmt::format("{:.1f} %", 100 * row.total_ms / profile.all_ms()), or_dash("{:.1f}", row.gflops()),
               or_dash("{:.1f}", row.gbps()), or_dash("{:.1f}", row.intensity()),
               or_dash("{:.0f} %", row.roof_percent()), or_dash("{:.0f} %", 100 * all.occupancy), row.bound});
  }
  return table;
}

// The GPU's kernels of all lines, those with most time or, where there is none, most instructions first.
std::vector<GpuKernel> launches_of(const Profile& profile) {
  GpuFigures all;
  for (const ProfileRow& row : profile.rows) all += row.gpu;
  std::ranges::stable_sort(all.kernels, std::greater(), [](const GpuKernel& kernel) {
    return std::tuple(kernel.total_ms, kernel.counts.warp_instructions, kernel.launches);
  });
  return all.kernels;
}

TextTable launch_table(const Profile& profile, std::span<const GpuKernel> kernels) {
  const bool simulated = profile.gpu->simulated;
  const std::vector<std::string> first = {"kernel", "launches", "grid", "block", "registers", "shared B"};
  TextTable table(simulated ? joined(first, count_heads(), {""})
                            : joined(first, {"total ms", "mean", "share", "occup."}, {""}));
  for (const GpuKernel& kernel : kernels) {
    const std::vector<std::string> cells = {kernel.name,
                                            std::to_string(kernel.launches),
                                            size_text(kernel.grid),
                                            size_text(kernel.block),
                                            or_dash("{:.0f}", kernel.registers),
                                            or_dash("{:.0f}", static_cast<double>(kernel.shared_bytes))};
    table.add(simulated ? joined(cells, count_cells(kernel), {""})
                        : joined(cells,
                                 {fmt::format("{:.2f}", kernel.total_ms),
                                  fmt::format("{:.4f}", kernel.total_ms / static_cast<double>(kernel.launches)),
                                  fmt::format("{:.1f} %", 100 * kernel.total_ms / profile.all_ms()),
                                  or_dash("{:.0f} %", 100 * kernel.occupancy)},
                                 {""}));
  }
  return table;
}

std::string data_sheet(const GpuProfile::Spec& spec) {
  return fmt::format("{:.1f} TFLOP/s fp32, {:.1f} fp16 and bf16, {:.0f} GB/s by its data sheet", spec.fp32_gflops / 1e3,
                     spec.half_gflops / 1e3, spec.memory_gbps);
}

std::string heading(const Profile& profile) {
  const GpuProfile& gpu = *profile.gpu;
  const bool known = !gpu.spec.name.empty();
  std::string text = gpu.device;
  if (gpu.simulated)
    text = fmt::format(
        "ESTIMATE for an {0} ({1}):\n{2} is a simulated GPU, which has no times. Counts are exact; columns with "
        "\"est.\" are "
        "what an {0} would need at least, not a measurement.",
        gpu.spec.name, data_sheet(gpu.spec), gpu.device);
  else if (known)
    text += fmt::format(" ({})", data_sheet(gpu.spec));
  else
    text += " is not in the list of known GPUs, so nothing is held against roofs; --gpu names one";
  text += fmt::format("\n\n{}: {} step{} of {} images on {} GPU{}, {}{:.3f} ms a step\n", profile.job, profile.steps,
                      profile.steps == 1 ? "" : "s", profile.batch, profile.ranks, profile.ranks == 1 ? "" : "s",
                      gpu.simulated ? "est. " : "", profile.wall_ms / profile.steps);
  text += fmt::format("noted by {}; every node was launched by itself, not replayed as a CUDA graph\n", gpu.method);
  if (!gpu.why_not_better.empty()) text += fmt::format("single kernels are not seen: {}\n", gpu.why_not_better);
  return text + "\n";
}

std::string footing(const Profile& profile) {
  if (profile.gpu->simulated)
    return fmt::format(
        "\nlanes: active ones of a warp; sectors: 32 bytes of global memory; x ideal: sectors by those that the bytes "
        "asked for\nfill; conflicts: extra passes over shared memory; occup.: warps that fit onto a multiprocessor at "
        "once. Grids are\nthose of a GPU with {} multiprocessors. Kernels of cuDNN, cuBLAS and NCCL are not "
        "interpreted: they have no counts.\n",
        profile.gpu->multiprocessors);
  double idle = 0;
  for (const ProfileRow& row : profile.rows) idle += row.phase == "idle" ? row.total_ms : 0;
  return fmt::format("\n{:.1f} % of the GPUs' time is in the lines of kernels and copies; the rest is \"idle\".\n",
                     100 * (1 - idle / profile.all_ms()));
}

TableJson counts_json(const GpuKernel& kernel) {
  const LaunchCounts& counts = kernel.counts;
  return {{"warp_instructions", counts.warp_instructions},
          {"lane_instructions", counts.lane_instructions},
          {"lane_percent", lane_percent(counts)},
          {"read_bytes", counts.read_bytes},
          {"write_bytes", counts.write_bytes},
          {"read_sectors", counts.read_sectors},
          {"write_sectors", counts.write_sectors},
          {"sectors_by_ideal", sectors_by_ideal(counts)},
          {"shared_accesses", counts.shared_accesses},
          {"shared_conflicts", counts.shared_conflicts}};
}

TableJson kernel_json(const GpuKernel& kernel, bool simulated) {
  TableJson json = {{"name", kernel.name},           {"launches", kernel.launches},
                    {"grid", kernel.grid},           {"block", kernel.block},
                    {"registers", kernel.registers}, {"shared_bytes", kernel.shared_bytes},
                    {"occupancy", kernel.occupancy}};
  if (!simulated) json["total_ms"] = kernel.total_ms;
  if (kernel.counted > 0) json["counts"] = counts_json(kernel);
  return json;
}

std::string csv_cell(const std::string& text) {
  return text.find_first_of(",\"\n") == std::string::npos ? text : TableJson(text).dump();
}

}  // namespace

std::string gpu_to_text(const Profile& profile, const ProfileTable& table) {
  const auto shown_of = [&](std::size_t all) {
    return table.top <= 0 ? all : std::min(all, static_cast<std::size_t>(table.top));
  };
  std::string text = heading(profile);
  std::size_t all = 0;
  if (table.group == ProfileGroup::launch) {
    const std::vector<GpuKernel> kernels = launches_of(profile);
    all = kernels.size();
    text += launch_table(profile, std::span(kernels).first(shown_of(all))).text();
  } else {
    std::vector<ProfileRow> rows = grouped(profile.rows, table.group, table.sort);
    all = rows.size();
    rows.resize(shown_of(all));
    text += (profile.gpu->simulated ? simulated_table : timed_table)(profile, rows, table.group).text();
  }
  if (shown_of(all) < all) text += fmt::format("... and {} more (--top 0 shows all)\n", all - shown_of(all));
  return text + footing(profile);
}

std::string gpu_to_json_text(const Profile& profile) {
  const GpuProfile& gpu = *profile.gpu;
  TableJson json = {{"job", profile.job},
                    {"batch", profile.batch},
                    {"ranks", profile.ranks},
                    {"steps", profile.steps},
                    {"times", gpu.simulated ? "estimate for an " + gpu.spec.name : "measured"},
                    {"gpu",
                     {{"device", gpu.device},
                      {"simulated", gpu.simulated},
                      {"method", gpu.method},
                      {"why_not_better", gpu.why_not_better}}},
                    {"machine",
                     {{"machine", gpu.spec.name},
                      {"fp32_gflops", gpu.spec.fp32_gflops},
                      {"bf16_gflops", gpu.spec.half_gflops},
                      {"memory_gbps", gpu.spec.memory_gbps}}},
                    {"wall_ms", profile.wall_ms}};
  json["kernels"] = TableJson::array();
  for (const ProfileRow& row : profile.rows) {
    const GpuKernel all = row.gpu.all();
    TableJson line = {{"name", row.name},
                      {"implementation", row.implementation},
                      {"layer", row.layer},
                      {"phase", row.phase},
                      {"rank", row.rank},
                      {"calls", row.calls},
                      {"estimate", gpu.simulated},
                      {"total_ms", row.total_ms},
                      {"mean_ms", row.mean_ms()},
                      {"min_ms", row.min_ms},
                      {"max_ms", row.max_ms},
                      {"share", row.total_ms / profile.all_ms()},
                      {"flops", row.flops},
                      {"bytes", row.bytes},
                      {"gflops", row.gflops()},
                      {"gbps", row.gbps()},
                      {"intensity", row.intensity()},
                      {"roof_percent", row.roof_percent()},
                      {"bound", row.bound},
                      {"launches", all.launches},
                      {"counted_launches", all.counted},
                      {"occupancy", all.occupancy},
                      {"copies", row.gpu.copies},
                      {"copied_bytes", row.gpu.copied_bytes}};
    if (all.counted > 0) line["counts"] = counts_json(all);
    line["launched"] = TableJson::array();
    for (const GpuKernel& kernel : row.gpu.kernels) line["launched"].push_back(kernel_json(kernel, gpu.simulated));
    json["kernels"].push_back(std::move(line));
  }
  json["advice"] = profile.advice;
  return json.dump();
}

std::string gpu_to_csv_text(const Profile& profile) {
  const std::string times = profile.gpu->simulated ? "estimated_" : "";
  std::string text = fmt::format(
      "name,implementation,layer,phase,rank,calls,{0}total_ms,{0}mean_ms,{0}share,flops,bytes,{0}roof_percent,{0}bound,"
      "launches,counted_launches,occupancy,copied_bytes,warp_instructions,lane_percent,read_sectors,write_sectors,"
      "sectors_by_ideal,shared_conflicts\n",
      times);
  for (const ProfileRow& row : profile.rows) {
    const GpuKernel all = row.gpu.all();
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(row.name),
                        csv_cell(row.implementation), csv_cell(row.layer), row.phase, row.rank, row.calls, row.total_ms,
                        row.mean_ms(), row.total_ms / profile.all_ms(), row.flops, row.bytes, row.roof_percent(),
                        row.bound, all.launches, all.counted, all.occupancy, row.gpu.copied_bytes,
                        all.counts.warp_instructions, lane_percent(all.counts), all.counts.read_sectors,
                        all.counts.write_sectors, sectors_by_ideal(all.counts), all.counts.shared_conflicts);
  }
  return text;
}

}  // namespace trifold
