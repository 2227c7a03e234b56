// The shadow of global memory for races between blocks.
#include "ptx/block_races.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace gpusim::ptx {
namespace {

constexpr std::size_t kRows = 4;
constexpr std::size_t kMemoryLimit = std::size_t{512} << 20;
enum RowIndex : std::size_t { kWritten_, kFirstRead, kLastRead, kAtomic };

}  // namespace

BlockRaces& BlockRaces::get() {
  static BlockRaces& instance = *new BlockRaces;
  return instance;
}

void BlockRaces::forget() {
  pages_.clear();
  page_memory_ = 0;
  std::fill(cache_.begin(), cache_.end(), Cached{});
}

void BlockRaces::begin_launch(std::uint32_t blocks, bool take_turns) {
  if (page_memory_ > kMemoryLimit) forget();
  if (segment_ > 0xc0000000U) {
    forget();
    segment_ = 1;
  }
  launch_first_ = ++segment_;
  turn_first_ = segment_;
  turns_.clear();
  order_ = &serial_order_;
  if (take_turns) order_ = &turn_order_;
  order_->begin_launch(blocks);
}

void BlockRaces::begin_turn(std::uint32_t block) {
  turn_first_ = ++segment_;
  turns_.push_back({turn_first_, block});
  order_->begin_turn(block, turn_first_);
}

std::uint32_t BlockRaces::block_of(std::uint32_t segment) const {
  const auto after = std::upper_bound(turns_.begin(), turns_.end(), segment,
                                      [](std::uint32_t value, const Turn& turn) { return value < turn.first; });
  return std::prev(after)->block;
}

void BlockRaces::Page::refine(unsigned to_shift) {
  const std::size_t factor = std::size_t{1} << (shift - to_shift);
  std::vector<std::uint32_t> finer(cells.size() * factor);
  for (std::size_t cell = 0; cell < cells.size(); ++cell)
    std::fill_n(finer.begin() + static_cast<std::ptrdiff_t>(cell * factor), factor, cells[cell]);
  cells = std::move(finer);
  shift = to_shift;
}

BlockRaces::Page& BlockRaces::page_of(Address address) {
  const std::uint64_t number = address >> kPageShift;
  Cached& cached = cache_[number % kCached];
  if (cached.number == number) return *cached.page;
  std::unique_ptr<Page>& page = pages_[number];
  if (page == nullptr) {
    page = std::make_unique<Page>();
    page->cells.resize(kRows * page->grains());
    page_memory_ += page->cells.size() * sizeof(std::uint32_t);
  }
  cached = {number, page.get()};
  return *page;
}

// Slow: only after a row showed a segment of another turn of this launch.
void BlockRaces::judge(const std::uint32_t* row, std::size_t begin, std::size_t end, const char* what,
                       Verdict& verdict) const {
  if (verdict.conflict != 0) return;
  for (std::size_t at = begin; at < end; ++at) {
    const std::uint32_t other = row[at];
    if (other < launch_first_ || other >= turn_first_) continue;
    if (at > begin && other == row[at - 1]) continue;
    if (order_->is_before(block_of(other), other)) continue;
    verdict.conflict = other;
    verdict.other_access = what;
    return;
  }
}

void BlockRaces::access_in_page(Page& page, std::size_t begin, std::size_t end, Use use, Verdict& verdict) {
  const std::size_t grains = page.grains();
  std::uint32_t* written = page.cells.data() + kWritten_ * grains;
  std::uint32_t* first_read = page.cells.data() + kFirstRead * grains;
  std::uint32_t* last_read = page.cells.data() + kLastRead * grains;
  std::uint32_t* atomic = page.cells.data() + kAtomic * grains;
  const std::uint32_t base = launch_first_;
  const std::uint32_t others = turn_first_ - launch_first_;  // segment - base < others: another turn of this launch
  const std::uint32_t now = segment_;
  std::uint32_t conflict = 0;
  std::uint32_t fresh = 0;
  switch (use) {
    case Use::read:
#pragma GCC ivdep
      for (std::size_t at = begin; at < end; ++at) {
        conflict |= static_cast<std::uint32_t>(written[at] - base < others) |
                    static_cast<std::uint32_t>(atomic[at] - base < others);
        fresh |= static_cast<std::uint32_t>(last_read[at] < base);
        first_read[at] = first_read[at] < base ? now : first_read[at];
        last_read[at] = now;
      }
      break;
    case Use::strong_read:
      fresh = 1;
      for (std::size_t at = begin; at < end; ++at) conflict |= static_cast<std::uint32_t>(written[at] - base < others);
      break;
    case Use::write:
      for (std::size_t at = begin; at < end; ++at) {
        conflict |= static_cast<std::uint32_t>(written[at] - base < others) |
                    static_cast<std::uint32_t>(atomic[at] - base < others) |
                    static_cast<std::uint32_t>(first_read[at] - base < others) |
                    static_cast<std::uint32_t>(last_read[at] - base < others);
        fresh |= static_cast<std::uint32_t>(written[at] < base);
      }
      break;
    case Use::strong_write:
    case Use::atomic:
      for (std::size_t at = begin; at < end; ++at) {
        conflict |= static_cast<std::uint32_t>(written[at] - base < others) |
                    static_cast<std::uint32_t>(first_read[at] - base < others) |
                    static_cast<std::uint32_t>(last_read[at] - base < others);
        fresh |= static_cast<std::uint32_t>(atomic[at] < base);
      }
      break;
  }
  verdict.first_touch |= fresh != 0;
  if (conflict != 0) {
    judge(written, begin, end, "written", verdict);
    if (use == Use::read || use == Use::write) judge(atomic, begin, end, "changed by an atomic", verdict);
    if (!is_read(use)) {
      judge(last_read, begin, end, "read", verdict);
      judge(first_read, begin, end, "read", verdict);
    }
  }
  if (use == Use::write) {
    std::fill(written + begin, written + end, now);
    // What is ordered after this write is ordered after the reads before it too.
    if (order_ == &turn_order_) std::fill(first_read + begin, first_read + end, 0U);
  }
  if (is_strong_change(use)) std::fill(atomic + begin, atomic + end, now);
}

BlockRaces::Verdict BlockRaces::access(Address address, std::size_t bytes, Use use) {
  Verdict verdict;
  while (bytes > 0) {
    Page& page = page_of(address);
    const std::size_t offset = address & (kPageBytes - 1);
    const std::size_t length = std::min(bytes, kPageBytes - offset);
    const auto needed = static_cast<unsigned>(std::countr_zero((offset | length) | 4U));
    if (needed < page.shift) {
      page_memory_ += (page.cells.size() * sizeof(std::uint32_t)) * ((std::size_t{1} << (page.shift - needed)) - 1);
      page.refine(needed);
    }
    access_in_page(page, offset >> page.shift, (offset + length) >> page.shift, use, verdict);
    address += length;
    bytes -= length;
  }
  return verdict;
}

}  // namespace gpusim::ptx
