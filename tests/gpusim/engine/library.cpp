#include "engine/library.h"

#include "engine/device_faults.h"

namespace gpusim {
namespace {

// Null after a report.
void* map(const void* device_pointer, std::size_t bytes, std::string_view what, Access access) {
  auto& memory = DeviceMemory::get();
  const auto address = reinterpret_cast<Address>(device_pointer);
  if (const auto wrong = memory.violation(address, bytes, access)) {
    const Operation* running = current_operation();
    report(wrong->finding, std::string(what) + (running ? " of " + running->what : std::string()) + ": " + wrong->text);
    if (running && wrong->finding != Finding::uninitialised_read) mark_faulted(running->device, wrong->finding);
    return nullptr;
  }
  touch(address, bytes, access);
  if (access != Access::read) memory.mark_written(address, bytes);
  return memory.translate(address);
}

}  // namespace

const void* map_for_read(const void* device_pointer, std::size_t bytes, std::string_view what) {
  return map(device_pointer, bytes, what, Access::read);
}

void* map_for_write(void* device_pointer, std::size_t bytes, std::string_view what) {
  return map(device_pointer, bytes, what, Access::write);
}

void* map_for_update(void* device_pointer, std::size_t bytes, std::string_view what) {
  if (!map(device_pointer, bytes, what, Access::read)) return nullptr;
  return map(device_pointer, bytes, what, Access::write);
}

void as_operation(OperationId id, const std::function<void()>& body) {
  const CurrentOperation current(operation(id));
  body();
}

bool is_device_pointer(const void* pointer) {
  return DeviceMemory::get().contains(reinterpret_cast<Address>(pointer));
}

}  // namespace gpusim
