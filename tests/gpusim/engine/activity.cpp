#include "engine/activity.h"

#include <utility>

namespace gpusim {
namespace {

struct Activity {
  bool listening = false;
  ActivityListener listener;
  std::uint32_t calls = 0;
};
Activity& activity() {
  static auto* one = new Activity;
  return *one;
}

thread_local std::uint32_t correlation_of_this_call = 0;

}  // namespace

void listen_to_activity(ActivityListener listener) {
  const std::lock_guard lock(simulator_lock());
  activity().listener = std::move(listener);
  activity().listening = true;
}

void stop_listening_to_activity() {
  const std::lock_guard lock(simulator_lock());
  activity().listening = false;
}

bool activity_has_listener() {
  return activity().listening;
}

ApiActivity::ApiActivity() : outermost_(correlation_of_this_call == 0 && activity().listening) {
  if (!outermost_) return;
  correlation_of_this_call = ++activity().calls;
  activity().listener.called(correlation_of_this_call);
}

ApiActivity::~ApiActivity() {
  if (outermost_) correlation_of_this_call = 0;
}

std::uint32_t current_correlation() {
  return correlation_of_this_call;
}

void tell_ran(const Operation& operation, const Work& work) {
  if (activity().listening && operation.correlation != 0) activity().listener.ran(operation, work);
}

}  // namespace gpusim
