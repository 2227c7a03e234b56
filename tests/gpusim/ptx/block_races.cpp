// The shadow of global memory for races between blocks.
#include "ptx/block_races.h"

#include <algorithm>
#include <bit>
#include <set>

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

void BlockRaces::begin_launch() {
  if (page_memory_ > kMemoryLimit) forget();
  if (segment_ > 0xc0000000U) {
    forget();
    segment_ = 1;
  }
  launch_first_ = ++segment_;
  block_first_ = segment_;
  any_fence_ = false;
  block_starts_.clear();
  variables_.clear();
  acquired_.clear();
}

void BlockRaces::begin_block() {
  block_first_ = ++segment_;
  block_starts_.push_back(block_first_);
  fenced_ = 0;
  acquired_.clear();
}

void BlockRaces::fence() {
  fenced_ = segment_++;
  any_fence_ = true;
}

void BlockRaces::synchronise(Address address, bool acquire, bool release) {
  if (!any_fence_) return;  // nothing was released so far
  const bool releases_something = release && fenced_ != 0;
  auto found = variables_.find(address);
  if (found == variables_.end()) {
    if (!releases_something) return;
    found = variables_.try_emplace(address).first;
  }
  SyncVariable& variable = found->second;
  if (acquire && std::find(acquired_.begin(), acquired_.end(), &variable) == acquired_.end())
    acquired_.push_back(&variable);
  if (!releases_something) return;
  if (!variable.releases.empty() && variable.releases.back().first == block_first_) {
    variable.releases.back().last = fenced_;
  } else {
    variable.releases.push_back({block_first_, fenced_});
  }
  for (const SyncVariable* other : acquired_) {
    if (other == &variable) continue;
    auto known = std::find_if(variable.inherited.begin(), variable.inherited.end(),
                              [other](const auto& entry) { return entry.first == other; });
    if (known == variable.inherited.end()) {
      variable.inherited.emplace_back(other, block_first_);
    } else {
      known->second = block_first_;
    }
  }
}

bool BlockRaces::releases(const SyncVariable& variable, std::uint32_t segment, std::uint32_t before) {
  auto after = std::upper_bound(variable.releases.begin(), variable.releases.end(), segment,
                                [](std::uint32_t value, const auto& release) { return value < release.first; });
  if (after == variable.releases.begin()) return false;
  const auto& release = *std::prev(after);
  return segment <= release.last && release.first < before;
}

bool BlockRaces::is_ordered(std::uint32_t segment) const {
  std::vector<std::pair<const SyncVariable*, std::uint32_t>> open;
  for (const SyncVariable* variable : acquired_) open.emplace_back(variable, block_first_);
  std::set<std::pair<const SyncVariable*, std::uint32_t>> seen(open.begin(), open.end());
  while (!open.empty()) {
    const auto [variable, before] = open.back();
    open.pop_back();
    if (releases(*variable, segment, before)) return true;
    for (const auto& [other, upto] : variable->inherited) {
      const std::pair entry{other, std::min(upto, before)};
      if (seen.insert(entry).second) open.push_back(entry);
    }
  }
  return false;
}

std::uint32_t BlockRaces::block_of(std::uint32_t segment) const {
  const auto after = std::upper_bound(block_starts_.begin(), block_starts_.end(), segment);
  return static_cast<std::uint32_t>(after - block_starts_.begin()) - 1;
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

// Slow: only after a row showed a segment of another block of this launch.
void BlockRaces::judge(const std::uint32_t* row, std::size_t begin, std::size_t end, const char* what,
                       Verdict& verdict) const {
  if (verdict.conflict != 0) return;
  for (std::size_t at = begin; at < end; ++at) {
    const std::uint32_t other = row[at];
    if (other < launch_first_ || other >= block_first_) continue;
    if (at > begin && other == row[at - 1]) continue;
    if (is_ordered(other)) continue;
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
  const std::uint32_t others = block_first_ - launch_first_;  // segment - base < others: another block of this launch
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
  if (use == Use::write) std::fill(written + begin, written + end, now);
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
