// Activity by CUPTI. Its records come in buffers, perhaps on a thread of CUPTI's, and in no order: what a kernel
// belongs to is in a record of its own, which names the API call that launched it.
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include <cxxabi.h>
#include <fmt/format.h>

#include "core/cuda/cuda_recorder.h"
#include "core/cuda/cupti_library.h"
#include "core/error.h"

namespace trifold::cuda {
namespace {

// The newest forms of records that these headers know; fields only ever come after those that were there before.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#else
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
#endif
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using FillRecord = CUpti_ActivityMemset4;

constexpr CUpti_ExternalCorrelationKind kTags = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::size_t kBufferAlign = 8;
constexpr int kCounts = 8;

// Tags come with records of API calls, so these are noted too, both the runtime's and those that libraries make of the
// driver.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
};

// "relu_kernel<float>" of "void trifold::(anonymous namespace)::relu_kernel<float>(float*)".
std::string short_name(const char* mangled) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = demangled == nullptr ? mangled : demangled;
  std::free(demangled);
  for (const char* noise : {"(anonymous namespace)::", "trifold::cuda::", "trifold::"})
    for (std::size_t at = name.find(noise); at != std::string::npos; at = name.find(noise))
      name.erase(at, std::char_traits<char>::length(noise));
  int depth = 0;  // of template arguments, which may hold parentheses of their own
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) name.resize(i);
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}

DeviceActivity::Kind kind_of_copy(std::uint8_t copy) {
  switch (copy) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return DeviceActivity::Kind::copy_in;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return DeviceActivity::Kind::copy_out;
    default:
      return DeviceActivity::Kind::copy;
  }
}

// What has come from CUPTI and was not taken yet. It outlives every recorder: CUPTI's threads may still write to it.
struct Inbox {
  struct Seen {
    DeviceActivity activity;
    std::uint32_t correlation = 0;
    std::uint32_t cuda_device = 0;
    std::int64_t grid_id = 0;
  };
  const CuptiLibrary* cupti = nullptr;
  std::mutex mutex;
  std::vector<Seen> seen;
  std::unordered_map<std::uint32_t, std::uint64_t> tags;  // by correlation

  template <class Record>
  Seen& add(const Record& record, DeviceActivity::Kind kind) {
    Seen& one = seen.emplace_back();
    one.activity.kind = kind;
    one.activity.begin_ns = record.start;
    one.activity.end_ns = record.end;
    one.correlation = record.correlationId;
    one.cuda_device = record.deviceId;
    return one;
  }

  void add(const CUpti_Activity& any) {
    switch (any.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& record = reinterpret_cast<const KernelRecord&>(any);
        Seen& one = add(record, DeviceActivity::Kind::kernel);
        one.activity.name = short_name(record.name);
        one.activity.grid = {record.gridX, record.gridY, record.gridZ};
        one.activity.block = {record.blockX, record.blockY, record.blockZ};
        one.activity.registers = record.registersPerThread;
        one.activity.shared_bytes = std::int64_t{record.staticSharedMemory} + record.dynamicSharedMemory;
        one.grid_id = record.gridId;
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& record = reinterpret_cast<const CopyRecord&>(any);
        add(record, kind_of_copy(record.copyKind)).activity.bytes = static_cast<std::int64_t>(record.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& record = reinterpret_cast<const PeerCopyRecord&>(any);
        add(record, DeviceActivity::Kind::copy).activity.bytes = static_cast<std::int64_t>(record.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& record = reinterpret_cast<const FillRecord&>(any);
        add(record, DeviceActivity::Kind::fill).activity.bytes = static_cast<std::int64_t>(record.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& record = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(any);
        if (record.externalKind == kTags) tags[record.correlationId] = record.externalId;
        break;
      }
      default:
        break;  // API calls: only their tags are of interest
    }
  }
};

Inbox& inbox() {
  static auto* one = new Inbox;
  return *one;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlign, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  Inbox& box = inbox();
  const std::lock_guard lock(box.mutex);
  CUpti_Activity* record = nullptr;
  while (box.cupti->next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) box.add(*record);
  std::free(buffer);
}

class CuptiRecorder final : public ActivityRecorder {
 public:
  CuptiRecorder(const CuptiLibrary& cupti, std::vector<CudaDevice*> devices)
      : cupti_(cupti), devices_(std::move(devices)), counters_(find_launch_counters()) {}
  ~CuptiRecorder() override {
    for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(cupti_.disable(kind));
    static_cast<void>(cupti_.flush_all(0));
  }

  // CUPTI's reason where it does not.
  std::string start() {
    inbox().cupti = &cupti_;
    CUptiResult result = cupti_.register_callbacks(give_buffer, take_buffer);
    for (const CUpti_ActivityKind kind : kKinds)
      if (result == CUPTI_SUCCESS) result = cupti_.enable(kind);
    if (result != CUPTI_SUCCESS) return fmt::format("CUPTI refuses: {}", cupti_.text_of(result));
    take();  // what came before
    return {};
  }

  std::string method() const override { return "CUPTI"; }
  std::string why_not() const override { return {}; }
  bool simulated() const override { return counters_ != nullptr; }

  void enter(Device&, std::uint64_t tag) override { static_cast<void>(cupti_.push_id(kTags, tag)); }
  void leave(Device&) noexcept override { static_cast<void>(cupti_.pop_id(kTags, nullptr)); }

  std::vector<DeviceActivity> take() override {
    for (const CudaDevice* device : devices_) {
      device->make_current();
      TRIFOLD_CUDA(cudaDeviceSynchronize());
    }
    if (const CUptiResult result = cupti_.flush_all(0); result != CUPTI_SUCCESS)
      fail_runtime("CUPTI: {} in cuptiActivityFlushAll", cupti_.text_of(result));
    std::size_t dropped = 0;
    static_cast<void>(cupti_.dropped_records(nullptr, 0, &dropped));
    if (dropped > 0) fail_runtime("CUPTI dropped {} records of a step; profile fewer kernels a step", dropped);
    Inbox& box = inbox();
    const std::lock_guard lock(box.mutex);
    std::vector<DeviceActivity> taken;
    for (Inbox::Seen& one : box.seen) {
      const int place = place_of(one.cuda_device);
      if (place < 0) continue;  // a GPU that nobody asked about
      one.activity.device = place;
      if (const auto tag = box.tags.find(one.correlation); tag != box.tags.end()) one.activity.tag = tag->second;
      one.activity.counts = counts_of(one);
      taken.push_back(std::move(one.activity));
    }
    box.seen.clear();
    box.tags.clear();
    return taken;
  }

 private:
  int place_of(std::uint32_t cuda_device) const {
    for (std::size_t i = 0; i < devices_.size(); ++i)
      if (devices_[i]->index() == static_cast<int>(cuda_device)) return static_cast<int>(i);
    return -1;
  }
  std::optional<LaunchCounts> counts_of(const Inbox::Seen& one) const {
    std::uint64_t figures[kCounts] = {};
    if (counters_ == nullptr || one.activity.kind != DeviceActivity::Kind::kernel) return std::nullopt;
    if (counters_(one.grid_id, figures, kCounts) < kCounts) return std::nullopt;
    const auto figure = [&](int i) { return static_cast<double>(figures[i]); };
    return LaunchCounts{.warp_instructions = figure(0),
                        .lane_instructions = figure(1),
                        .read_bytes = figure(2),
                        .write_bytes = figure(3),
                        .read_sectors = figure(4),
                        .write_sectors = figure(5),
                        .shared_accesses = figure(6),
                        .shared_conflicts = figure(7)};
  }

  const CuptiLibrary& cupti_;
  std::vector<CudaDevice*> devices_;
  LaunchCounters counters_;
};

}  // namespace

std::unique_ptr<ActivityRecorder> make_cupti_recorder(std::vector<CudaDevice*> devices, std::string* why_not) {
  const CuptiLibrary* cupti = CuptiLibrary::load(why_not);
  if (cupti == nullptr) return nullptr;
  auto recorder = std::make_unique<CuptiRecorder>(*cupti, std::move(devices));
  *why_not = recorder->start();
  if (!why_not->empty()) return nullptr;
  return recorder;
}

}  // namespace trifold::cuda
