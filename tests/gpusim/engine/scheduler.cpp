#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>

#include "engine/activity.h"
#include "engine/device_faults.h"
#include "engine/pinned_memory.h"
#include "engine/process_exit.h"
#include "include/gpusim.h"

namespace gpusim {
namespace {

bool order_is_lazy() {
  const char* order = std::getenv("GPUSIM_ORDER");
  if (order && std::strcmp(order, "eager") != 0 && std::strcmp(order, "lazy") != 0) {
    fatal(Finding::unsupported, std::string("GPUSIM_ORDER=") + order + " is neither lazy nor eager");
  }
  return !order || std::strcmp(order, "lazy") == 0;
}

double seconds_until_deadlock() {
  const char* seconds = std::getenv("GPUSIM_DEADLOCK_S");
  return seconds ? std::atof(seconds) : 30.0;
}

using SteadyTime = std::chrono::steady_clock::time_point;

struct Scheduler {
  bool lazy = order_is_lazy();
  std::deque<Queue> queues;  // a deque: references stay good
  Clock known_to_hosts;      // what any host thread has waited for
  std::condition_variable_any progress;
  SteadyTime last_progress = std::chrono::steady_clock::now();
  double deadlock_s = seconds_until_deadlock();
};
Scheduler& scheduler() {
  static auto* one = new Scheduler;
  return *one;
}

thread_local bool inside_host_function = false;

void note_progress() {
  scheduler().last_progress = std::chrono::steady_clock::now();
  scheduler().progress.notify_all();
}

// A queue's operations in [1, sequence] and all they come after.
bool run_to(int number, std::uint32_t sequence);

bool run_front(Queue& queue) {
  const OperationId id = queue.pending.front().id;
  Operation& now = operation_to_run(id);
  for (std::size_t other = 0; other < now.clock.size(); ++other) {
    if (static_cast<int>(other) != queue.number && !run_to(static_cast<int>(other), now.clock[other])) return false;
  }
  if (queue.pending.empty() || queue.pending.front().id != id) return true;  // a predecessor's collective took it along
  if (queue.running) return false;
  const CurrentOperation current(&now);
  const bool lost = fault_of(now.device).has_value();
  if (!lost && queue.pending.front().work.ready) {
    if (!queue.pending.front().work.ready()) return false;
    if (queue.pending.front().id != id) return true;
  }
  const Work work = std::move(queue.pending.front().work);
  queue.pending.pop_front();
  queue.running = true;
  Clock before = now.clock;
  before[static_cast<std::size_t>(queue.number)] -= 1;
  now.finish_ns = time_of(before) + now.cost_ns;
  if (!lost) work.run();
  queue.running = false;
  queue.done = now.sequence;
  tell_ran(now, work);
  note_progress();
  return true;
}

bool run_to(int number, std::uint32_t sequence) {
  Queue& queue = scheduler().queues[static_cast<std::size_t>(number)];
  while (queue.done < sequence) {
    if (queue.running || queue.pending.empty()) return false;
    if (!run_front(queue)) return false;
  }
  return true;
}

// One operation of the queue, or one it comes after.
bool step(int number) {
  Queue& queue = scheduler().queues[static_cast<std::size_t>(number)];
  if (queue.running || queue.pending.empty()) return false;
  const Clock clock = operation(queue.pending.front().id)->clock;
  for (std::size_t other = 0; other < clock.size(); ++other) {
    const bool behind = scheduler().queues[other].done < clock[other];
    if (static_cast<int>(other) != number && behind) return step(static_cast<int>(other));
  }
  return run_front(queue);
}

void abandon(Queue& queue) {
  queue.pending.clear();
  queue.done = queue.enqueued;
}

void report_deadlock() {
  std::string blocked;
  for (auto& queue : scheduler().queues) {
    // It cannot be taken back: another thread is in the middle of it.
    if (queue.running) {
      const auto& stuck = *operation(queue.operations[queue.done]);
      fatal(Finding::deadlock, "the host waits, and '" + stuck.what + "' does not end");
    }
    if (queue.pending.empty()) continue;
    blocked += "; stream " + std::to_string(queue.number) + " of device " + std::to_string(queue.device) +
               " is stuck at '" + operation(queue.pending.front().id)->what + "'";
    mark_faulted(queue.device, Finding::deadlock);
    abandon(queue);
  }
  report(Finding::deadlock, "nothing has happened for a while and the host waits" + blocked);
  PinnedMemory::get().open_all();
  note_progress();
}

// What was enqueued in eager order and could not run yet, because other ranks had not come.
void run_eager_work() {
  for (const auto& queue : scheduler().queues) run_to(queue.number, queue.eager_until);
}

void run_what_is_left() {
  std::lock_guard lock(simulator_lock());
  for (const auto& queue : scheduler().queues) run_to(queue.number, queue.enqueued);
}

}  // namespace

std::recursive_mutex& simulator_lock() {
  static auto* lock = new std::recursive_mutex;
  return *lock;
}

Queue& new_queue(int device) {
  auto& queues = scheduler().queues;
  // A number is reused only when all of its operations are known to be done, or races with them would be missed.
  const auto reusable = std::find_if(queues.begin(), queues.end(), [](const Queue& queue) {
    return queue.retired && queue.done == queue.enqueued &&
           covers(scheduler().known_to_hosts, queue.number, queue.enqueued);
  });
  if (reusable != queues.end()) {
    reusable->retired = false;
    reusable->device = device;
    return *reusable;
  }
  if (queues.empty()) at_process_end(run_what_is_left);
  queues.push_back({.number = static_cast<int>(queues.size()), .device = device, .operations = {}, .pending = {}});
  return queues.back();
}

void retire(Queue& queue) {
  queue.retired = true;
}

OperationId submit(Queue& queue, Clock& clock, Work work) {
  const auto index = static_cast<std::size_t>(queue.number);
  join(clock, scheduler().known_to_hosts);
  if (clock.size() <= index) clock.resize(index + 1);
  clock[index] = ++queue.enqueued;
  const bool any_device = work.kind != WorkKind::kernel && work.kind != WorkKind::library;
  const Operation& added = add_operation({.device = queue.device,
                                          .stream = queue.number,
                                          .sequence = queue.enqueued,
                                          .clock = clock,
                                          .what = work.what,
                                          .any_device = any_device,
                                          .cost_ns = work.cost_ns,
                                          .correlation = current_correlation()});
  queue.operations.push_back(added.id);
  const auto enqueued = work.enqueued;
  queue.pending.push_back({added.id, std::move(work)});
  if (enqueued) enqueued(added.id);
  note_progress();
  if (!scheduler().lazy) {
    queue.eager_until = queue.enqueued;
    run_eager_work();
  }
  return added.id;
}

bool is_done(const Clock& clock) {
  for (std::size_t i = 0; i < clock.size(); ++i) {
    if (scheduler().queues[i].done < clock[i]) return false;
  }
  return true;
}

bool run_all(const Clock& clock) {
  for (std::size_t i = 0; i < clock.size(); ++i) {
    if (!run_to(static_cast<int>(i), clock[i])) return false;
  }
  return true;
}

bool run_one_of(const Clock& clock) {
  for (std::size_t i = 0; i < clock.size(); ++i) {
    if (scheduler().queues[i].done < clock[i] && step(static_cast<int>(i))) return true;
  }
  return false;
}

void host_knows(const Clock& clock) {
  join(scheduler().known_to_hosts, clock);
  PinnedMemory::get().open_known(scheduler().known_to_hosts);
}

const Clock& known_to_hosts() {
  return scheduler().known_to_hosts;
}

OperationId access_unknown_to_host(Address address, std::size_t bytes) {
  return access_outside(scheduler().known_to_hosts, address, bytes);
}

void wait_on_host(const Clock& clock) {
  if (inside_host_function) return;  // reported as forbidden; to wait would be to wait for itself
  auto& all = scheduler();
  const auto began = std::chrono::steady_clock::now();
  while (!run_all(clock)) {
    all.progress.wait_for(simulator_lock(), std::chrono::milliseconds(20));
    const std::chrono::duration<double> idle = std::chrono::steady_clock::now() - std::max(all.last_progress, began);
    if (idle.count() > all.deadlock_s) report_deadlock();
  }
  host_knows(clock);
}

Clock everything_on(int device) {
  Clock clock(scheduler().queues.size());
  for (const auto& queue : scheduler().queues) {
    if (queue.device == device) clock[static_cast<std::size_t>(queue.number)] = queue.enqueued;
  }
  return clock;
}

void abandon_everything_on(int device) {
  for (auto& queue : scheduler().queues) {
    if (queue.device == device) abandon(queue);
  }
}

std::uint64_t time_of(const Clock& clock) {
  std::uint64_t latest = 0;
  for (std::size_t i = 0; i < clock.size(); ++i) {
    if (clock[i] == 0) continue;
    const OperationId id = scheduler().queues[i].operations[clock[i] - 1];
    latest = std::max(latest, operation(id)->finish_ns);
  }
  return latest;
}

void wake_waiters() {
  std::lock_guard lock(simulator_lock());
  note_progress();
  run_eager_work();
}

bool run_predecessors(OperationId id) {
  const Operation& now = *operation(id);
  Clock before = now.clock;
  before[static_cast<std::size_t>(now.stream)] -= 1;
  return run_all(before);
}

void without_lock(const std::function<void()>& body) {
  simulator_lock().unlock();
  inside_host_function = true;
  body();
  inside_host_function = false;
  simulator_lock().lock();
}

bool in_host_function() {
  return inside_host_function;
}

}  // namespace gpusim

extern "C" void gpusim_set_order(const char* order) {
  const std::lock_guard lock(gpusim::simulator_lock());
  if (std::strcmp(order, "lazy") != 0 && std::strcmp(order, "eager") != 0) {
    gpusim::fatal(gpusim::Finding::unsupported, std::string("order ") + order + " is neither lazy nor eager");
  }
  gpusim::scheduler().lazy = std::strcmp(order, "lazy") == 0;
}
