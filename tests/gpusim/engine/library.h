// What the stand-ins for cuBLAS, cuDNN and NCCL use of the simulator. They are shared libraries of their own that link
// to the stand-in libcudart, which exports this interface.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/device_memory.h"
#include "engine/report.h"
#include "engine/streams.h"

#define GPUSIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpusim {

// Inside a Work::run of a library call: the host view of a device range, checked (bounds, initialised, races). Null
// after a report; the call then does nothing more.
const void* map_for_read(const void* device_pointer, std::size_t bytes, std::string_view what);
void* map_for_write(void* device_pointer, std::size_t bytes, std::string_view what);  // the range counts as written
void* map_for_update(void* device_pointer, std::size_t bytes, std::string_view what);

// Runs `body` as the operation `id`, so that its accesses are judged by that operation's clock.
void as_operation(OperationId id, const std::function<void()>& body);

bool is_device_pointer(const void* pointer);

}  // namespace gpusim
