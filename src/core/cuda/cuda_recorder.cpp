#include "core/cuda/cuda_recorder.h"

#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/error.h"

namespace trifold::cuda {
namespace {

Event make_timing_event() {
  cudaEvent_t event = nullptr;
  TRIFOLD_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return Event(event);
}

// Each device is used by the thread of its rank; take() comes between steps.
class EventRecorder final : public ActivityRecorder {
 public:
  EventRecorder(const std::vector<CudaDevice*>& devices, std::string why)
      : why_(std::move(why)), simulated_(find_launch_counters() != nullptr) {
    for (CudaDevice* device : devices) {
      device->make_current();
      logs_.push_back({.device = device, .start = make_timing_event()});
      restart(logs_.back());
    }
  }

  std::string method() const override { return "CUDA events"; }
  std::string why_not() const override { return why_; }
  bool simulated() const override { return simulated_; }

  void enter(Device& device, std::uint64_t tag) override {
    TRIFOLD_CHECK(log_of(device) != nullptr, "no activity is noted of {}", device.name());
    Log& log = *log_of(device);
    log.device->make_current();
    if (log.used == log.pieces.size()) log.pieces.push_back({0, make_timing_event(), make_timing_event()});
    log.pieces[log.used].tag = tag;
    TRIFOLD_CUDA(cudaEventRecord(log.pieces[log.used].begin.get(), log.device->compute()));
  }

  void leave(Device& device) noexcept override {
    Log& log = *log_of(device);
    static_cast<void>(cudaEventRecord(log.pieces[log.used].end.get(), log.device->compute()));
    ++log.used;
  }

  std::vector<DeviceActivity> take() override {
    std::vector<DeviceActivity> taken;
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      Log& log = logs_[i];
      log.device->synchronize();
      for (std::size_t piece = 0; piece < log.used; ++piece)
        taken.push_back({.kind = DeviceActivity::Kind::work,
                         .device = static_cast<int>(i),
                         .tag = log.pieces[piece].tag,
                         .begin_ns = since_start(log, log.pieces[piece].begin),
                         .end_ns = since_start(log, log.pieces[piece].end)});
      restart(log);
    }
    return taken;
  }

 private:
  struct Piece {
    std::uint64_t tag = 0;
    Event begin, end;
  };
  struct Log {
    CudaDevice* device = nullptr;
    Event start;  // that all times are measured from
    std::vector<Piece> pieces = {};
    std::size_t used = 0;
  };

  static void restart(Log& log) {
    log.device->make_current();
    TRIFOLD_CUDA(cudaEventRecord(log.start.get(), log.device->compute()));
    log.used = 0;
  }
  static std::uint64_t since_start(const Log& log, const Event& event) {
    float ms = 0;
    TRIFOLD_CUDA(cudaEventElapsedTime(&ms, log.start.get(), event.get()));
    return static_cast<std::uint64_t>(1e6 * static_cast<double>(ms));
  }
  Log* log_of(const Device& device) {
    for (Log& log : logs_)
      if (log.device == &device) return &log;
    return nullptr;  // enter() refuses it
  }

  std::string why_;
  bool simulated_;
  std::vector<Log> logs_;
};

}  // namespace

LaunchCounters find_launch_counters() {
  Dl_info runtime{};
  if (::dladdr(reinterpret_cast<void*>(&cudaGetDeviceCount), &runtime) == 0) return nullptr;
  void* library = ::dlopen(runtime.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = ::dlsym(library, "gpusim_launch_counters");
  ::dlclose(library);  // it stays: this library needs it
  return reinterpret_cast<LaunchCounters>(found);
}

std::unique_ptr<ActivityRecorder> make_event_recorder(std::vector<CudaDevice*> devices, std::string why) {
  return std::make_unique<EventRecorder>(devices, std::move(why));
}

std::unique_ptr<ActivityRecorder> make_recorder(std::vector<CudaDevice*> devices) {
  std::string why_not;
  if (auto recorder = make_cupti_recorder(devices, &why_not)) return recorder;
  return make_event_recorder(std::move(devices), std::move(why_not));
}

}  // namespace trifold::cuda
