// Bookkeeping of shared-memory accesses.
#include "ptx/shared_races.h"

#include <algorithm>
#include <bit>

namespace gpusim::ptx {

namespace {

constexpr std::size_t kBarriers = 16;

void join(std::vector<std::uint32_t>& into, const std::vector<std::uint32_t>& other) {
  for (std::size_t warp = 0; warp < into.size(); ++warp) into[warp] = std::max(into[warp], other[warp]);
}

}  // namespace

void SharedRaces::configure(std::size_t bytes, unsigned grain, std::size_t warps, bool has_partial_barriers) {
  shift_ = static_cast<unsigned>(std::countr_zero(grain));
  now_ = 1;
  warps_ = warps;
  has_partial_barriers_ = has_partial_barriers;
  warp_times_.assign(warps, 0);
  const std::size_t cells = (bytes >> shift_) + 1;
  for (auto* row : {&write_time_, &read_time_, &read_warps_, &atomic_time_, &atomic_warps_}) row->assign(cells, 0);
  for (auto* row : {&writer_, &reader_, &atomic_thread_}) row->assign(cells, 0);
  if (has_partial_barriers) read_time_of_warp_.assign(cells * warps, 0);
}

void SharedRaces::begin_block() {
  if (now_ > 0x80000000U) {
    now_ = 1;
    for (auto* row : {&write_time_, &read_time_, &atomic_time_, &read_time_of_warp_})
      std::fill(row->begin(), row->end(), 0U);
    std::fill(warp_times_.begin(), warp_times_.end(), 0U);
  }
  block_start_ = ++now_;
  barrier_time_ = ++now_;
  if (has_partial_barriers_) {
    known_.assign(warps_, Knowledge(warps_, block_start_));
    arrived_.assign(kBarriers, {});
  }
}

void SharedRaces::arrive(std::uint32_t warp, std::uint32_t id) {
  Knowledge knowledge = known_[warp];
  knowledge[warp] = now_++;
  arrived_[id].push_back(std::move(knowledge));
}

void SharedRaces::barrier(std::uint32_t waiting, std::uint32_t id, bool is_complete) {
  const std::uint32_t time = now_++;
  if (is_complete) barrier_time_ = now_;
  if (!has_partial_barriers_) return;
  Knowledge all(warps_, 0);
  for (const Knowledge& knowledge : arrived_[id]) join(all, knowledge);
  arrived_[id].clear();
  for (std::size_t warp = 0; warp < warps_; ++warp) {
    if ((waiting >> warp & 1U) == 0) continue;
    join(all, known_[warp]);
    all[warp] = time;
  }
  for (std::size_t warp = 0; warp < warps_; ++warp) {
    if ((waiting >> warp & 1U) == 0) continue;
    join(known_[warp], all);
    warp_times_[warp] = now_;
  }
}

// `other` did something at `stamp`; may `thread` do something that conflicts with it now?
bool SharedRaces::is_race_with(std::uint32_t stamp, std::uint32_t other, std::uint32_t thread) const {
  if (stamp < barrier_time_ || other == thread) return false;
  if (other / 32 == thread / 32) return stamp >= warp_times_[thread / 32] && stamp != now_;
  return !has_partial_barriers_ || stamp > known_[thread / 32][other / 32];
}

SharedRaces::Finding SharedRaces::judge(std::size_t cell, std::uint32_t thread, Use use) const {
  const std::uint32_t other_warps = ~(1U << (thread / 32));
  if (is_race_with(write_time_[cell], writer_[cell], thread)) return {Finding::Kind::race, writer_[cell], "written", 0};
  if ((use == Use::read || use == Use::write) && atomic_time_[cell] >= barrier_time_) {
    const bool by_others = (atomic_warps_[cell] & other_warps) != 0 && !has_partial_barriers_;
    if (by_others || is_race_with(atomic_time_[cell], atomic_thread_[cell], thread))
      return {Finding::Kind::race, atomic_thread_[cell], "changed by an atomic", 0};
  }
  if (is_read(use) || read_time_[cell] < barrier_time_) return {};
  if (is_race_with(read_time_[cell], reader_[cell], thread)) return {Finding::Kind::race, reader_[cell], "read", 0};
  for (std::uint32_t rest = read_warps_[cell] & other_warps; rest != 0; rest &= rest - 1) {
    const auto warp = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (has_partial_barriers_ && !is_race_with(read_time_of_warp_[cell * warps_ + warp], warp * 32, thread)) continue;
    return {Finding::Kind::race, warp * 32, "read", 0};
  }
  return {};
}

void SharedRaces::record(std::size_t cell, std::uint32_t thread, Use use) {
  const std::uint32_t warp_bit = 1U << (thread / 32);
  const auto short_thread = static_cast<std::uint16_t>(thread);
  switch (use) {
    case Use::strong_read:
      break;  // conflicts with plain writes only, which judge() sees when they come first
    case Use::read:
      read_warps_[cell] = (read_time_[cell] >= barrier_time_ ? read_warps_[cell] : 0U) | warp_bit;
      read_time_[cell] = now_;
      reader_[cell] = short_thread;
      if (has_partial_barriers_) read_time_of_warp_[cell * warps_ + thread / 32] = now_;
      break;
    case Use::write:
      write_time_[cell] = now_;
      writer_[cell] = short_thread;
      break;
    case Use::strong_write:
    case Use::atomic:
      atomic_warps_[cell] = (atomic_time_[cell] >= barrier_time_ ? atomic_warps_[cell] : 0U) | warp_bit;
      atomic_time_[cell] = now_;
      atomic_thread_[cell] = short_thread;
      break;
  }
}

SharedRaces::Finding SharedRaces::access(std::size_t offset, std::size_t bytes, std::uint32_t thread, Use use) {
  Finding finding;
  bool any_written = !needs_value(use);
  const std::size_t end = (offset + bytes - 1) >> shift_;
  for (std::size_t cell = offset >> shift_; cell <= end; ++cell) {
    any_written |= write_time_[cell] >= block_start_ || atomic_time_[cell] >= block_start_;
    if (finding.kind == Finding::Kind::none) finding = judge(cell, thread, use);
    record(cell, thread, use);
  }
  if (!any_written) finding.kind = Finding::Kind::uninitialised;
  return finding;
}

bool SharedRaces::access_lanes(const std::uint64_t* offsets, std::uint32_t mask, std::size_t bytes, std::uint32_t warp,
                               Use use) {
  if ((use != Use::read && use != Use::write) || has_partial_barriers_) return false;
  const std::size_t more = ((bytes - 1) >> shift_);
  bool is_calm = true;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const std::size_t first = offsets[std::countr_zero(rest)] >> shift_;
    for (std::size_t cell = first; cell <= first + more; ++cell)
      is_calm &= use == Use::read ? is_calm_for_reading(cell) : is_calm_for_writing(cell);
  }
  if (!is_calm) return false;
  const std::uint32_t warp_bit = 1U << warp;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::size_t first = offsets[lane] >> shift_;
    const auto thread = static_cast<std::uint16_t>(warp * 32 + lane);
    for (std::size_t cell = first; cell <= first + more; ++cell) {
      if (use == Use::write) {
        write_time_[cell] = now_;
        writer_[cell] = thread;
      } else {
        read_warps_[cell] = (read_time_[cell] >= barrier_time_ ? read_warps_[cell] : 0U) | warp_bit;
        read_time_[cell] = now_;
        reader_[cell] = thread;
      }
    }
  }
  return true;
}

SharedRaces::Finding SharedRaces::access_run(std::size_t offset, std::size_t element_bytes, std::uint32_t thread,
                                             std::uint32_t count, Use use) {
  const std::size_t cell = offset >> shift_;
  if (element_bytes == std::size_t{1} << shift_ && (use == Use::read || use == Use::write) && !has_partial_barriers_) {
    bool is_calm = true;
    if (use == Use::read) {
      for (std::size_t at = cell; at < cell + count; ++at) is_calm &= is_calm_for_reading(at);
    } else {
      for (std::size_t at = cell; at < cell + count; ++at) is_calm &= is_calm_for_writing(at);
    }
    if (is_calm) {
      const std::uint32_t warp_bit = 1U << (thread / 32);
      for (std::size_t at = cell; at < cell + count; ++at) {
        const auto short_thread = static_cast<std::uint16_t>(thread + (at - cell));
        if (use == Use::write) {
          write_time_[at] = now_;
          writer_[at] = short_thread;
        } else {
          read_warps_[at] = (read_time_[at] >= barrier_time_ ? read_warps_[at] : 0U) | warp_bit;
          read_time_[at] = now_;
          reader_[at] = short_thread;
        }
      }
      return {};
    }
  }
  Finding result;
  for (std::uint32_t index = 0; index < count; ++index) {
    const Finding finding = access(offset + index * element_bytes, element_bytes, thread + index, use);
    if (finding.kind != Finding::Kind::none && result.kind == Finding::Kind::none) {
      result = finding;
      result.lane_index = index;
    }
  }
  return result;
}

}  // namespace gpusim::ptx
