// Activity records on their way to the tool: made when work runs, delivered in the tool's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cupti.h>

#include "engine/library.h"

namespace gpusim {

// A record as its bytes; all are multiples of 8 long.
using RecordBytes = std::vector<std::byte>;

// 0: a kind that the stand-in never makes.
std::size_t bytes_of_record(CUpti_ActivityKind kind);

RecordBytes api_record(std::uint32_t correlation);
RecordBytes tag_record(CUpti_ExternalCorrelationKind kind, std::uint64_t id, std::uint32_t correlation);
// Of work that ran. Kernels of libraries, which are not interpreted, are called as their function and have no shape.
RecordBytes kernel_record(const Operation& operation, const Work& work);
RecordBytes copy_record(const Operation& operation, const Work& work);
RecordBytes fill_record(const Operation& operation, const Work& work);

}  // namespace gpusim
