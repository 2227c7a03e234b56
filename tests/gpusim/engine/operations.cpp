#include "engine/operations.h"

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "engine/access_sets.h"
#include "engine/double_mapping.h"
#include "engine/peer_access.h"
#include "engine/pinned_memory.h"

namespace gpusim {
namespace {

thread_local const Operation* running = nullptr;

std::deque<Operation>& operations() {
  static auto* all = new std::deque<Operation>;  // a deque: others keep pointers into it
  return *all;
}

// Who touched four bytes last: as many writers and readers as are not ordered among themselves.
struct Cell {
  AccessSet writers;
  AccessSet readers;
};
constexpr std::size_t kCellBytes = 4;

struct Cells {
  Cell* device = static_cast<Cell*>(reserve_zeroed(kMaxDevices * kDeviceBytes / kCellBytes * sizeof(Cell)));
  Cell* pinned = static_cast<Cell*>(reserve_zeroed(PinnedMemory::kBytes / kCellBytes * sizeof(Cell)));
  Address device_base = DeviceMemory::get().user_base();
  Address pinned_base = PinnedMemory::get().user_base();
};
Cells& cells() {
  static auto* all = new Cells;
  return *all;
}
Cell* cell_of(Address address) {
  const Cells& all = cells();
  if (DeviceMemory::get().contains(address)) return all.device + (address - all.device_base) / kCellBytes;
  return all.pinned + (address - all.pinned_base) / kCellBytes;
}

// Operations that the running one was already found to come after: most cells of a buffer name the same two or three.
class KnownEarlier {
 public:
  bool comes_before(OperationId id, const Operation& now) {
    if (now.id != now_) {
      now_ = now.id;
      ids_.fill(0);
    }
    if (std::find(ids_.begin(), ids_.end(), id) != ids_.end()) return true;
    const Operation* earlier = operation(id);
    if (earlier && !happens_before(*earlier, now)) return false;
    ids_[next_++ % ids_.size()] = id;
    return true;
  }

 private:
  OperationId now_ = 0;
  std::array<OperationId, 4> ids_ = {};
  std::size_t next_ = 0;
};
thread_local KnownEarlier known_earlier;

const char* name_of(Access access) {
  return access == Access::read ? "read" : access == Access::write ? "write" : "atomic update";
}

std::string name_of(const Operation& operation) {
  return "'" + operation.what + "' (stream " + std::to_string(operation.stream) + ", device " +
         std::to_string(operation.device) + ")";
}

struct Place {  // who makes the text of where it happened, called only for a report
  std::string (*text)(void*) = nullptr;
  void* argument = nullptr;
  std::string get() const { return text ? " " + text(argument) : std::string(); }
};

void report_race(OperationId earlier_id, Access access, Address address, const Place& place) {
  static auto* seen = new std::set<std::pair<OperationId, OperationId>>;
  if (!seen->insert({earlier_id, running->id}).second) return;
  const Operation& earlier = *operation(earlier_id);
  const bool pinned = !DeviceMemory::get().contains(address);
  report(Finding::stream_race,
         std::string(name_of(access)) + " by " + name_of(*running) + place.get() + " is not ordered after " +
             name_of(earlier) + "; " +
             (pinned ? "pinned host memory at " + hex(address) : DeviceMemory::get().describe(address)));
}

void check_peer(Address address, const Place& place) {
  if (running->any_device || !DeviceMemory::get().contains(address)) return;
  const int device = DeviceMemory::get().device_of(address);
  if (peer_access_enabled(running->device, device)) return;
  static auto* seen = new std::set<OperationId>;
  if (!seen->insert(running->id).second) return;
  report(Finding::peer_access, name_of(*running) + place.get() + " has no peer access to device " +
                                   std::to_string(device) + "; " + DeviceMemory::get().describe(address));
}

bool already_touched(const Cell& cell, Access access) {
  const OperationId me = running->id;
  switch (access) {
    case Access::read:
      return cell.readers.is_only(me) || cell.writers.is_only(me);
    case Access::write:
      return cell.writers.is_only({me, AccessSet::Kind::plain});
    case Access::atomic:
      return cell.writers.is_only(me);
  }
  return false;
}

// The first member that the running operation is not ordered after; 0 when there is none.
OperationId unordered_in(const AccessSet& set, bool atomics_count) {
  OperationId found = 0;
  set.for_each([&](AccessSet::Member member) {
    if (found || member.id == running->id) return;
    if (member.kind == AccessSet::Kind::atomic && !atomics_count) return;
    if (!known_earlier.comes_before(member.id, *running)) found = member.id;
  });
  return found;
}

// `set` without those that come before the running operation, and with it.
AccessSet with_running(const AccessSet& set, AccessSet::Kind kind) {
  return set.filtered_with({running->id, kind},
                           [](OperationId id) { return !known_earlier.comes_before(id, *running); });
}

void touch_cell(Cell& cell, Address address, Access access, const Place& place) {
  const bool atomic = access == Access::atomic;
  // Two atomics need no order, but an atomic and a plain access do.
  OperationId conflict = unordered_in(cell.writers, /*atomics_count=*/!atomic);
  if (!conflict && access != Access::read) conflict = unordered_in(cell.readers, true);
  if (conflict) report_race(conflict, access, address, place);
  if (access == Access::read) {
    cell.readers = with_running(cell.readers, AccessSet::Kind::plain);
    return;
  }
  cell.readers = AccessSet();  // whoever comes after this write comes after them, or is reported against the write
  cell.writers =
      atomic ? with_running(cell.writers, AccessSet::Kind::atomic) : AccessSet({running->id, AccessSet::Kind::plain});
}

}  // namespace

const Operation* current_operation() {
  return running;
}
CurrentOperation::CurrentOperation(const Operation* operation) : previous_(running) {
  running = operation;
}
CurrentOperation::~CurrentOperation() {
  running = previous_;
}

const Operation* operation(OperationId id) {
  return id != 0 && id <= operations().size() ? &operations()[id - 1] : nullptr;
}
Operation& operation_to_run(OperationId id) {
  return operations()[id - 1];
}

Operation& add_operation(Operation added) {
  added.id = static_cast<OperationId>(operations().size() + 1);
  if (added.id > AccessSet::kLargestId) fatal(Finding::unsupported, "more operations than the simulator can number");
  operations().push_back(std::move(added));
  return operations().back();
}

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

bool covers(const Clock& clock, int stream, std::uint32_t sequence) {
  const auto index = static_cast<std::size_t>(stream);
  return sequence == 0 || (index < clock.size() && clock[index] >= sequence);
}

bool happens_before(const Operation& earlier, const Operation& later) {
  return covers(later.clock, earlier.stream, earlier.sequence);
}

void touch(Address address, std::size_t bytes, Access access, std::string (*where)(void*), void* where_argument) {
  if (!running || bytes == 0) return;
  const Place place{where, where_argument};
  check_peer(address, place);
  const Address first = address & ~Address{kCellBytes - 1};
  Cell* cell = cell_of(first);
  for (Address at = first; at < address + bytes; at += kCellBytes, ++cell) {
    if (!already_touched(*cell, access)) touch_cell(*cell, at, access, place);
  }
}

bool touched_by_current(Address address, std::size_t bytes, Access access) {
  if (!running) return true;
  const Address first = address & ~Address{kCellBytes - 1};
  const Cell* cell = cell_of(first);
  for (Address at = first; at < address + bytes; at += kCellBytes, ++cell) {
    if (!already_touched(*cell, access)) return false;
  }
  return true;
}

OperationId access_outside(const Clock& clock, Address address, std::size_t bytes) {
  OperationId found = 0;
  const auto look = [&](AccessSet::Member member) {
    const Operation& user = *operation(member.id);
    if (!covers(clock, user.stream, user.sequence)) found = member.id;
  };
  const Address first = address & ~Address{kCellBytes - 1};
  const Cell* cell = cell_of(first);
  for (Address at = first; at < address + bytes && !found; at += kCellBytes, ++cell) {
    cell->writers.for_each(look);
    cell->readers.for_each(look);
  }
  return found;
}

void forget_accesses(Address address, std::size_t bytes) {
  Cell* first = cell_of(address & ~Address{kCellBytes - 1});
  discard_zeroed(first, bytes / kCellBytes * sizeof(Cell));
}

}  // namespace gpusim
