#include "engine/pinned_memory.h"

#include <algorithm>

#include <sys/mman.h>

#include "engine/double_mapping.h"

namespace gpusim {
namespace {

const DoubleMapping& pinned_mapping() {
  static auto* both = new DoubleMapping("gpusim-pinned", PinnedMemory::kBytes);
  return *both;
}

Address page_of(Address address) {
  return address & ~Address{kPageBytes - 1};
}
std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

void set_protection(Address begin, std::size_t bytes, int protection) {
  if (mprotect(reinterpret_cast<void*>(begin), bytes, protection) != 0) {
    fatal(Finding::unsupported, "mprotect of pinned memory failed");
  }
}

}  // namespace

PinnedMemory& PinnedMemory::get() {
  static auto* memory = new PinnedMemory;
  return *memory;
}

PinnedMemory::PinnedMemory()
    : user_(pinned_mapping().user()), simulator_(pinned_mapping().simulator()), top_(kPageBytes) {}

void* PinnedMemory::allocate(std::size_t bytes, unsigned flags) {
  const std::size_t stretch = whole_pages(bytes) + kPageBytes;  // a closed page behind each block
  if (top_ + stretch > kBytes) return nullptr;
  const Address address = user_ + top_;
  top_ += stretch;
  blocks_[address] = Block{.bytes = bytes, .live = true, .flags = flags, .pending = {}};
  set_protection(address, whole_pages(bytes), PROT_READ | PROT_WRITE);
  return reinterpret_cast<void*>(address);
}

bool PinnedMemory::release(void* pointer) {
  const auto found = blocks_.find(reinterpret_cast<Address>(pointer));
  if (found == blocks_.end() || !found->second.live) return false;
  found->second.live = false;
  found->second.pending.clear();
  set_protection(found->first, whole_pages(found->second.bytes), PROT_NONE);
  pinned_mapping().discard(found->first - user_, whole_pages(found->second.bytes));
  return true;
}

PinnedMemory::Blocks::const_iterator PinnedMemory::find(Address address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return address < next->first + whole_pages(next->second.bytes) + kPageBytes ? next : blocks_.end();
}

bool PinnedMemory::block_of(Address address, Extent& extent) const {
  if (!contains(address)) return false;
  const auto found = find(address);
  if (found == blocks_.end() || !found->second.live || address >= found->first + found->second.bytes) return false;
  extent = Extent{.address = found->first, .bytes = found->second.bytes, .flags = found->second.flags};
  return true;
}

std::string PinnedMemory::describe(Address address) const {
  const auto found = find(address);
  if (found == blocks_.end()) return "address " + hex(address) + " is in no pinned block";
  const auto& [begin, block] = *found;
  const std::string name = std::to_string(block.bytes) + "-byte pinned block at " + hex(begin);
  if (!block.live) return "address " + hex(address) + " is in the freed " + name;
  const std::size_t offset = address - begin;
  if (offset < block.bytes)
    return "address " + hex(address) + " is " + std::to_string(offset) + " bytes into the " + name;
  return "address " + hex(address) + " is " + std::to_string(offset - block.bytes) + " bytes past the end of the " +
         name;
}

int PinnedMemory::protection_of_page(const Block& block, Address page) const {
  int protection = PROT_READ | PROT_WRITE;
  for (const auto& pending : block.pending) {
    if (pending.end <= page || pending.begin >= page + kPageBytes) continue;
    if (pending.access != Access::read) return PROT_NONE;
    protection = PROT_READ;
  }
  return protection;
}

void PinnedMemory::protect(const Block& block, Address begin, Address end) const {
  Address from = page_of(begin);
  int wanted = protection_of_page(block, from);
  for (Address page = from + kPageBytes; page < end; page += kPageBytes) {
    const int next = protection_of_page(block, page);
    if (next == wanted) continue;
    set_protection(from, page - from, wanted);
    from = page;
    wanted = next;
  }
  set_protection(from, page_of(end + kPageBytes - 1) - from, wanted);
}

void PinnedMemory::close(Address address, std::size_t bytes, Access copy_access, OperationId copy) {
  const auto found = blocks_.find(find(address)->first);
  found->second.pending.push_back({address, address + bytes, copy_access, copy});
  protect(found->second, address, address + bytes);
}

void PinnedMemory::open_known(const Clock& host_clock) {
  for (auto& [begin, block] : blocks_) {
    if (block.pending.empty()) continue;
    const auto known = [&](const Pending& pending) {
      const Operation* copy = operation(pending.copy);
      return covers(host_clock, copy->stream, copy->sequence);
    };
    if (std::erase_if(block.pending, known) > 0) protect(block, begin, begin + block.bytes);
  }
}

void PinnedMemory::open_all() {
  for (auto& [begin, block] : blocks_) {
    if (!block.pending.empty()) open_block(begin);
  }
}

void PinnedMemory::open_block(Address address) {
  const auto found = find(address);
  if (found == blocks_.end() || !found->second.live) return;
  auto& block = blocks_[found->first];
  block.pending.clear();
  protect(block, found->first, found->first + block.bytes);
}

void PinnedMemory::set_page(Address address, bool open) {
  const Address page = page_of(address);
  const auto found = find(address);
  if (found == blocks_.end() || !found->second.live) return;
  set_protection(page, kPageBytes, open ? PROT_READ | PROT_WRITE : protection_of_page(found->second, page));
}

PinnedMemory::HostAccess PinnedMemory::judge(Address address, bool is_write, std::string& text) const {
  const auto found = find(address);
  if (found == blocks_.end() || !found->second.live || address >= found->first + found->second.bytes) {
    text = describe(address);
    return HostAccess::outside;
  }
  for (const auto& pending : found->second.pending) {
    if (address < pending.begin || address >= pending.end) continue;
    if (pending.access == Access::read && !is_write) continue;
    text = "the host " + std::string(is_write ? "writes" : "reads") + " pinned memory that '" +
           operation(pending.copy)->what + "' (stream " + std::to_string(operation(pending.copy)->stream) + ") " +
           (pending.access == Access::read ? "reads" : "writes") + ", without having waited for it; " +
           describe(address);
    return HostAccess::conflicts;
  }
  return HostAccess::allowed;
}

}  // namespace gpusim
