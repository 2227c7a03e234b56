#include "cupti/records.h"

#include <cstring>
#include <set>

#include <unistd.h>

namespace gpusim {
namespace {

template <class Record>
RecordBytes bytes_of(const Record& record) {
  static_assert(sizeof(Record) % ACTIVITY_RECORD_ALIGNMENT == 0);
  RecordBytes bytes(sizeof record);
  std::memcpy(bytes.data(), &record, sizeof record);
  return bytes;
}

// Names in records stay good to the end of the process.
const char* kept(std::string text) {
  static auto* all = new std::set<std::string>;
  return all->insert(std::move(text)).first->c_str();
}

template <class Record>
Record on_device(CUpti_ActivityKind kind, const Operation& operation) {
  Record record;
  std::memset(&record, 0, sizeof record);
  record.kind = kind;
  record.start = operation.finish_ns - operation.cost_ns;
  record.end = operation.finish_ns;
  record.deviceId = static_cast<std::uint32_t>(operation.device);
  record.contextId = static_cast<std::uint32_t>(operation.device + 1);
  record.streamId = static_cast<std::uint32_t>(operation.stream);
  record.correlationId = operation.correlation;
  return record;
}

CUpti_ActivityMemcpyKind kind_of(WorkDetails::Copy copy) {
  switch (copy) {
    case WorkDetails::Copy::host_to_device:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case WorkDetails::Copy::device_to_host:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case WorkDetails::Copy::device_to_device:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    default:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
  }
}

}  // namespace

std::size_t bytes_of_record(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

RecordBytes api_record(std::uint32_t correlation) {
  CUpti_ActivityAPI record;
  std::memset(&record, 0, sizeof record);
  record.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  record.processId = static_cast<std::uint32_t>(::getpid());
  record.correlationId = correlation;
  return bytes_of(record);
}

RecordBytes tag_record(CUpti_ExternalCorrelationKind kind, std::uint64_t id, std::uint32_t correlation) {
  CUpti_ActivityExternalCorrelation record;
  std::memset(&record, 0, sizeof record);
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = kind;
  record.externalId = id;
  record.correlationId = correlation;
  return bytes_of(record);
}

RecordBytes kernel_record(const Operation& operation, const Work& work) {
  auto record = on_device<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, operation);
  const WorkDetails& details = work.details;
  const bool own = work.kind == WorkKind::kernel;
  const auto size = [&](const std::uint32_t(&of)[3], int i) { return own ? static_cast<std::int32_t>(of[i]) : 0; };
  record.gridX = size(details.grid, 0);
  record.gridY = size(details.grid, 1);
  record.gridZ = size(details.grid, 2);
  record.blockX = size(details.block, 0);
  record.blockY = size(details.block, 1);
  record.blockZ = size(details.block, 2);
  record.registersPerThread = static_cast<std::uint16_t>(details.registers);
  record.staticSharedMemory = static_cast<std::int32_t>(details.static_shared_bytes);
  record.dynamicSharedMemory = static_cast<std::int32_t>(details.dynamic_shared_bytes);
  record.localMemoryPerThread = static_cast<std::uint32_t>(details.local_bytes);
  record.gridId = operation.id;
  record.name = kept(own ? details.kernel : work.what.substr(0, work.what.find_first_of(" (")));
  return bytes_of(record);
}

RecordBytes copy_record(const Operation& operation, const Work& work) {
  auto record = on_device<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, operation);
  record.copyKind = static_cast<std::uint8_t>(kind_of(work.details.copy));
  record.bytes = work.details.bytes;
  record.copyCount = 1;
  return bytes_of(record);
}

RecordBytes fill_record(const Operation& operation, const Work& work) {
  auto record = on_device<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, operation);
  record.bytes = work.details.bytes;
  return bytes_of(record);
}

}  // namespace gpusim
