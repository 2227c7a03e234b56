// CUPTI's activity functions. Records are delivered by cuptiActivityFlushAll only, on the thread that calls it. As in
// the real library, the record of an external id comes with that of an API call, so it needs that kind to be on; API
// records are made of calls that give work, and say no more than their number.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "cudart/statistics.h"
#include "cupti/records.h"
#include "engine/activity.h"

namespace gpusim {
namespace {

struct Tool {
  std::mutex mutex;  // taken after the simulator's lock, never before it
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::map<CUpti_ActivityKind, bool> on;
  std::deque<RecordBytes> records;  // that the tool has not got yet

  bool wants(CUpti_ActivityKind kind) const {
    const auto found = on.find(kind);
    return found != on.end() && found->second;
  }
  bool wants_any() const {
    for (const auto& [kind, is_on] : on) {
      if (is_on) return true;
    }
    return false;
  }
};
Tool& tool() {
  static auto* one = new Tool;
  return *one;
}

thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>> ids_of_this_thread;

void hear_call(std::uint32_t correlation) {
  Tool& to = tool();
  const std::lock_guard lock(to.mutex);
  if (!to.wants(CUPTI_ACTIVITY_KIND_RUNTIME)) return;
  for (const auto& [kind, ids] : ids_of_this_thread) {
    if (!ids.empty() && to.wants(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
      to.records.push_back(tag_record(kind, ids.back(), correlation));
    }
  }
  to.records.push_back(api_record(correlation));
}

void hear_work(const Operation& operation, const Work& work) {
  Tool& to = tool();
  const std::lock_guard lock(to.mutex);
  switch (work.kind) {
    case WorkKind::kernel:
    case WorkKind::library:
      if (to.wants(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) to.records.push_back(kernel_record(operation, work));
      break;
    case WorkKind::copy:
      if (to.wants(CUPTI_ACTIVITY_KIND_MEMCPY)) to.records.push_back(copy_record(operation, work));
      break;
    case WorkKind::memset:
      if (to.wants(CUPTI_ACTIVITY_KIND_MEMSET)) to.records.push_back(fill_record(operation, work));
      break;
    default:
      break;
  }
}

bool is_refused() {  // as on a machine whose administrator allows profiling to root only
  const char* text = std::getenv("GPUSIM_CUPTI");
  return text && std::strcmp(text, "refuse") == 0;
}

CUptiResult set(CUpti_ActivityKind kind, bool on) {
  // The driver's calls and copies between devices are kinds that nothing here makes records of.
  const bool known =
      bytes_of_record(kind) > 0 || kind == CUPTI_ACTIVITY_KIND_DRIVER || kind == CUPTI_ACTIVITY_KIND_MEMCPY2;
  if (!known) return CUPTI_ERROR_INVALID_KIND;
  bool listens = false;
  bool counts = false;
  {
    const std::lock_guard lock(tool().mutex);
    tool().on[kind] = on;
    listens = tool().wants_any();
    counts = tool().wants(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  }
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) count_launches_for_tools(counts);
  if (listens) {
    listen_to_activity({.called = hear_call, .ran = hear_work});
  } else {
    stop_listening_to_activity();
  }
  return CUPTI_SUCCESS;
}

}  // namespace
}  // namespace gpusim

using namespace gpusim;

GPUSIM_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                         CUpti_BuffersCallbackCompleteFunc complete) {
  if (!request || !complete) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(tool().mutex);
  tool().request = request;
  tool().complete = complete;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return is_refused() ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : set(kind, true);
}

GPUSIM_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return set(kind, false);
}

GPUSIM_EXPORT CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  std::deque<RecordBytes> records;
  {
    const std::lock_guard lock(tool().mutex);
    if (!tool().request) return CUPTI_ERROR_INVALID_OPERATION;
    records.swap(tool().records);
  }
  while (!records.empty()) {
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0;
    std::size_t most = 0;
    tool().request(&buffer, &bytes, &most);
    std::size_t used = 0;
    for (std::size_t count = 0; !records.empty() && (most == 0 || count < most); ++count) {
      const RecordBytes& next = records.front();
      if (!buffer || used + next.size() > bytes) break;
      std::memcpy(buffer + used, next.data(), next.size());
      used += next.size();
      records.pop_front();
    }
    if (used == 0) return CUPTI_ERROR_OUT_OF_MEMORY;
    tool().complete(nullptr, 0, buffer, bytes, used);
  }
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes,
                                                     CUpti_Activity** record) {
  auto* next = reinterpret_cast<std::uint8_t*>(*record);
  next = next ? next + bytes_of_record((*record)->kind) : buffer;
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  ids_of_this_thread[kind].push_back(id);
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                                std::uint64_t* last) {
  auto& ids = ids_of_this_thread[kind];
  if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last) *last = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  switch (result) {
    case CUPTI_SUCCESS:
      *text = "CUPTI_SUCCESS";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
      return CUPTI_SUCCESS;
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}
