#include "cudart/copies.h"

#include <cstring>
#include <memory>
#include <vector>

#include "engine/device_faults.h"
#include "engine/pinned_memory.h"

namespace gpusim {
namespace {

enum class Place { device, pinned, pageable };

Place place_of(const void* pointer) {
  const auto address = reinterpret_cast<Address>(pointer);
  if (DeviceMemory::get().contains(address)) return Place::device;
  return PinnedMemory::get().contains(address) ? Place::pinned : Place::pageable;
}

// One side of a copy.
struct Side {
  Address address = 0;
  std::size_t pitch = 0;
  Place place = Place::pageable;
  Address row(std::size_t index) const { return address + index * pitch; }
  std::byte* row_memory(std::size_t index) const {
    if (place == Place::device) return DeviceMemory::get().translate(row(index));
    if (place == Place::pinned) return PinnedMemory::get().translate(row(index));
    return reinterpret_cast<std::byte*>(row(index));
  }
};

struct Extent {
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t bytes(std::size_t pitch) const { return (rows - 1) * pitch + row_bytes; }
};

struct Problem {
  Finding finding = Finding::invalid_call;
  std::string text;
};

// Whether the whole stretch lies in one live block. Pageable memory is the operating system's to judge.
std::optional<Problem> check_stretch(const Side& side, const Extent& extent) {
  const std::size_t bytes = extent.bytes(side.pitch);
  if (side.place == Place::device) {
    const auto wrong = DeviceMemory::get().violation(side.address, bytes, Access::write);
    if (wrong) return Problem{wrong->finding, wrong->text};
  } else if (side.place == Place::pinned) {
    PinnedMemory::Extent block;
    const auto& pinned = PinnedMemory::get();
    if (!pinned.block_of(side.address, block)) return Problem{Finding::use_after_free, pinned.describe(side.address)};
    const Address end = block.address + block.bytes;
    if (side.address + bytes > end) return Problem{Finding::out_of_bounds, pinned.describe(side.address + bytes)};
  }
  return std::nullopt;
}

bool direction_fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

const char* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return "host to host";
    case cudaMemcpyHostToDevice:
      return "host to device";
    case cudaMemcpyDeviceToHost:
      return "device to host";
    case cudaMemcpyDeviceToDevice:
      return "device to device";
    case cudaMemcpyDefault:
      return "default";
  }
  return "of an unknown kind";
}

WorkDetails::Copy direction_of(cudaMemcpyKind kind) {
  using enum WorkDetails::Copy;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return host_to_device;
    case cudaMemcpyDeviceToHost:
      return device_to_host;
    case cudaMemcpyDeviceToDevice:
      return device_to_device;
    default:
      return host_to_host;
  }
}

// A row that the stream reads. False: the copy stops there, reported.
bool enter_read(const Side& side, std::size_t row, std::size_t bytes, bool may_be_unwritten) {
  if (side.place == Place::device) {
    const Access access = may_be_unwritten ? Access::write : Access::read;  // "write" asks only for addressable memory
    if (const auto wrong = DeviceMemory::get().violation(side.row(row), bytes, access)) {
      report(wrong->finding, current_operation()->what + " reads: " + wrong->text);
      if (wrong->finding != Finding::uninitialised_read) {
        mark_faulted(current_operation()->device, wrong->finding);
        return false;
      }
    }
  }
  if (side.place != Place::pageable) touch(side.row(row), bytes, Access::read);
  return true;
}

bool enter_write(const Side& side, std::size_t row, std::size_t bytes) {
  if (side.place == Place::device) {
    if (const auto wrong = DeviceMemory::get().violation(side.row(row), bytes, Access::write)) {
      report(wrong->finding, current_operation()->what + " writes: " + wrong->text);
      mark_faulted(current_operation()->device, wrong->finding);
      return false;
    }
  }
  if (side.place != Place::pageable) touch(side.row(row), bytes, Access::write);
  return true;
}

void run_copy(const Side& to, const Side& from, const Extent& extent) {
  auto& memory = DeviceMemory::get();
  const bool device_to_device = to.place == Place::device && from.place == Place::device;
  for (std::size_t row = 0; row < extent.rows; ++row) {
    // Between devices unwritten memory may be copied; it stays unwritten in the copy.
    if (!enter_read(from, row, extent.row_bytes, device_to_device)) return;
    if (!enter_write(to, row, extent.row_bytes)) return;
    std::memmove(to.row_memory(row), from.row_memory(row), extent.row_bytes);
    if (device_to_device) {
      std::memmove(memory.shadow(to.row(row)), memory.shadow(from.row(row)), extent.row_bytes);
    } else if (to.place == Place::device) {
      memory.mark_written(to.row(row), extent.row_bytes);
    }
  }
}

// A pageable source is read when the function is called: the real runtime stages it in memory of its own.
struct Staged {
  std::vector<std::byte> bytes;
  Side side;
};
std::shared_ptr<Staged> stage(const Side& from, const Extent& extent) {
  auto staged = std::make_shared<Staged>();
  staged->bytes.resize(extent.row_bytes * extent.rows);
  for (std::size_t row = 0; row < extent.rows; ++row) {
    std::memcpy(staged->bytes.data() + row * extent.row_bytes, from.row_memory(row), extent.row_bytes);
  }
  staged->side = {
      .address = reinterpret_cast<Address>(staged->bytes.data()), .pitch = extent.row_bytes, .place = Place::pageable};
  return staged;
}

void close_rows(const Side& side, const Extent& extent, Access access, OperationId id) {
  if (side.place != Place::pinned) return;
  for (std::size_t row = 0; row < extent.rows; ++row) {
    PinnedMemory::get().close(side.row(row), extent.row_bytes, access, id);
  }
}

// On the simulated clock: 1 us, and ten bytes a nanosecond.
std::uint64_t cost_ns(const Extent& extent) {
  return 1000 + extent.row_bytes * extent.rows / 10;
}

// What a copy or fill is refused for, before anything is enqueued. Sets call.error.
bool accept_stretch(ApiCall& call, const Side& side, const Extent& extent, const char* role) {
  const auto problem = check_stretch(side, extent);
  if (problem) call.refuse(cudaErrorInvalidValue, std::string(role) + ": " + problem->text, problem->finding);
  return !problem;
}

}  // namespace

cudaError_t copy(ApiCall& call, const CopyArgs& args) {
  if (const auto lost = call.device_lost()) return *lost;
  CUstream_st* stream = call.stream_for_work(args.stream);
  if (!stream) return call.error;
  const Extent extent{args.row_bytes, args.rows};
  if (extent.row_bytes == 0 || extent.rows == 0) return cudaSuccess;
  if (extent.rows > 1 && (args.destination_pitch < extent.row_bytes || args.source_pitch < extent.row_bytes)) {
    return call.refuse(cudaErrorInvalidPitchValue, "a pitch is smaller than the row");
  }
  const Side to{reinterpret_cast<Address>(args.destination), args.destination_pitch, place_of(args.destination)};
  const Side from{reinterpret_cast<Address>(args.source), args.source_pitch, place_of(args.source)};
  const bool to_device = to.place == Place::device;
  const bool from_device = from.place == Place::device;
  if (!direction_fits(args.kind, to_device, from_device)) {
    return call.refuse(cudaErrorInvalidValue, std::string("the copy is ") + name_of(args.kind) +
                                                  ", but the pointers are " + (from_device ? "device" : "host") +
                                                  " to " + (to_device ? "device" : "host"));
  }
  if (!accept_stretch(call, to, extent, "destination") || !accept_stretch(call, from, extent, "source")) {
    return call.error;
  }
  const bool pageable = to.place == Place::pageable || from.place == Place::pageable;
  if (pageable && stream->seat.capture) {
    return call.refuse(*refuse_and_invalidate(*stream, CaptureError::unsupported,
                                              "a copy of pageable host memory cannot be captured"));
  }
  const bool staged_source = from.place == Place::pageable && to_device;
  const auto staged = staged_source ? stage(from, extent) : nullptr;
  const bool asynchronous = args.asynchronous;
  const cudaMemcpyKind kind = to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                                        : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  Work work{.what = std::string(call.name()) + " " + name_of(kind),
            .run = [=] { run_copy(to, staged ? staged->side : from, extent); },
            .enqueued =
                [=](OperationId id) {
                  if (!asynchronous) return;
                  close_rows(to, extent, Access::write, id);
                  close_rows(from, extent, Access::read, id);
                },
            .kind = WorkKind::copy,
            .cost_ns = cost_ns(extent),
            .details = {.copy = direction_of(kind), .bytes = extent.row_bytes * extent.rows}};
  const bool captured = stream->seat.capture != nullptr;
  enqueue(args.stream, std::move(work));
  // Host memory that the runtime cannot stage has to be done with when the call returns. A copy between devices never
  // waits; nor, by the letter of the documentation, does the rest of a staged one.
  const bool into_pageable = to.place == Place::pageable;
  const bool waits = into_pageable || (!asynchronous && !(to_device && from_device) && !(staged && is_strict()));
  if (waits && !captured) wait_on_host(stream->clock);
  return call.done();
}

cudaError_t fill(ApiCall& call, const FillArgs& args) {
  if (const auto lost = call.device_lost()) return *lost;
  CUstream_st* stream = call.stream_for_work(args.stream);
  if (!stream) return call.error;
  const Extent extent{args.row_bytes, args.rows};
  if (extent.row_bytes == 0 || extent.rows == 0) return cudaSuccess;
  if (extent.rows > 1 && args.pitch < extent.row_bytes) {
    return call.refuse(cudaErrorInvalidValue, "the pitch is smaller than the row");
  }
  const Side to{reinterpret_cast<Address>(args.destination), args.pitch, place_of(args.destination)};
  if (to.place != Place::device) {
    return call.refuse(cudaErrorInvalidValue, DeviceMemory::get().describe(to.address));
  }
  if (!accept_stretch(call, to, extent, "destination")) return call.error;
  const int value = args.value;
  const auto run = [=] {
    for (std::size_t row = 0; row < extent.rows; ++row) {
      if (!enter_write(to, row, extent.row_bytes)) return;
      std::memset(to.row_memory(row), value, extent.row_bytes);
      DeviceMemory::get().mark_written(to.row(row), extent.row_bytes);
    }
  };
  enqueue(args.stream, {.what = call.name(),
                        .run = run,
                        .kind = WorkKind::memset,
                        .cost_ns = cost_ns(extent),
                        .details = {.bytes = extent.row_bytes * extent.rows}});
  return call.done();  // never waits, not even cudaMemset: documented to be asynchronous for device memory
}

}  // namespace gpusim
