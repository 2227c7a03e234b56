// Set-up of a launch and of a block: registers, special registers, memory.
#include "ptx/execution.h"

#include <algorithm>
#include <cstring>

#include "engine/operations.h"
#include "ptx/lanes.h"

namespace gpusim::ptx {
namespace {

std::byte* aligned_storage(std::vector<RowStorage::Line>& lines, std::size_t bytes) {
  const std::size_t needed = bytes / sizeof(RowStorage::Line) + 1;
  if (lines.size() < needed) lines.resize(needed);
  return lines.front().bytes;
}

void fill_row(std::byte* rows, std::uint32_t row, std::uint32_t value) {
  auto* slots = reinterpret_cast<std::uint32_t*>(rows + row * kRow32);
  std::fill_n(slots, kLanes, value);
}

void fill_warp_rows(const Execution& run, const Warp& warp) {
  const Dim3& block = run.launch.block;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t thread = warp.index * kLanes + lane;
    const std::uint32_t values[] = {
        thread % block.x,
        thread / block.x % block.y,
        thread / block.x / block.y,
        lane,
        warp.index,
        1U << lane,
        (1U << lane) - 1,
        static_cast<std::uint32_t>((std::uint64_t{2} << lane) - 1),
        ~static_cast<std::uint32_t>((std::uint64_t{2} << lane) - 1),
        ~((1U << lane) - 1),
    };
    static_assert(std::size(values) == static_cast<std::size_t>(WarpRow::count));
    for (std::size_t row = 0; row < std::size(values); ++row)
      reinterpret_cast<std::uint32_t*>(warp.registers + row * kRow32)[lane] = values[row];
  }
}

}  // namespace

Execution::Execution(PtxKernel& the_kernel, const Launch& the_launch, RowStorage& storage,
                     std::uint32_t& already_reported)
    : kernel(the_kernel),
      launch(the_launch),
      memory(DeviceMemory::get()),
      block_races(BlockRaces::get()),
      reported(already_reported) {
  thread_count = static_cast<std::uint32_t>(launch.block.count());
  const std::uint32_t warp_count = (thread_count + kLanes - 1) / kLanes;
  shared_bytes = kernel.static_shared_bytes + launch.dynamic_shared_bytes;
  shared.assign(shared_bytes + 16, std::byte{0xcb});
  local.assign(std::size_t{warp_count} * kLanes * kernel.local_bytes + 16, std::byte{0xcb});
  has_operation = current_operation() != nullptr;
  statistics = launch.statistics;

  pools[1] = aligned_storage(storage.constants, kernel.constants.size());
  std::memcpy(pools[1], kernel.constants.data(), kernel.constants.size());
  const std::uint32_t launch_rows[] = {launch.block.x,
                                       launch.block.y,
                                       launch.block.z,
                                       0,
                                       0,
                                       0,
                                       launch.grid.x,
                                       launch.grid.y,
                                       launch.grid.z,
                                       0,
                                       1,
                                       warp_count,
                                       static_cast<std::uint32_t>(launch.dynamic_shared_bytes),
                                       static_cast<std::uint32_t>(shared_bytes),
                                       0,
                                       0};
  static_assert(std::size(launch_rows) == static_cast<std::size_t>(LaunchRow::count));
  for (std::uint32_t row = 0; row < std::size(launch_rows); ++row) fill_row(pools[1], row, launch_rows[row]);

  std::byte* registers = aligned_storage(storage.registers, kernel.register_bytes * warp_count);
  predicate_file_.assign(std::size_t{kernel.predicate_count} * warp_count, 0);
  warps.resize(warp_count);
  for (std::uint32_t index = 0; index < warp_count; ++index) {
    Warp& one = warps[index];
    one.index = index;
    const std::uint32_t threads = std::min(kLanes, thread_count - index * kLanes);
    one.lanes = threads == kLanes ? kAllLanes : (1U << threads) - 1;
    one.registers = registers + index * kernel.register_bytes;
    one.predicates = predicate_file_.data() + std::size_t{index} * kernel.predicate_count;
    one.predicates[0] = kAllLanes;
    fill_warp_rows(*this, one);
  }
  shared_races.configure(shared_bytes, kernel.smallest_shared_access, warp_count, kernel.has_partial_barriers);
}

void Execution::set_grid_workspace(Address address) {
  fill_row(pools[1], static_cast<std::uint32_t>(LaunchRow::envreg1), static_cast<std::uint32_t>(address >> 32));
  fill_row(pools[1], static_cast<std::uint32_t>(LaunchRow::envreg2), static_cast<std::uint32_t>(address));
}

void Execution::begin_block(std::uint32_t number) {
  block_number = number;
  const Dim3& grid = launch.grid;
  fill_row(pools[1], static_cast<std::uint32_t>(LaunchRow::ctaid_x), number % grid.x);
  fill_row(pools[1], static_cast<std::uint32_t>(LaunchRow::ctaid_y), number / grid.x % grid.y);
  fill_row(pools[1], static_cast<std::uint32_t>(LaunchRow::ctaid_z), number / grid.x / grid.y);
  shared_races.begin_block();
  for (Warp& one : warps) {
    one.alive = one.lanes;
    one.splits.assign(1, Split{0, one.lanes, Wait::none, 0});
    one.carry = 0;
    one.rounds = 0;
    one.copies.clear();
  }
  barrier_arrivals.fill(0);
  branches = 0;
}

}  // namespace gpusim::ptx
