// What a tool hears: of API calls that give work, and of work that ran. The stand-in for CUPTI listens; nobody does at
// first. Every API call that gives work has a number, which its operations carry.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/streams.h"

namespace gpusim {

struct ActivityListener {
  // On the thread that calls, before the work is given.
  std::function<void(std::uint32_t correlation)> called;
  // After it ran, in the order in which the simulator ran it, with the simulator's lock held.
  std::function<void(const Operation&, const Work&)> ran;
};
void listen_to_activity(ActivityListener listener);
void stop_listening_to_activity();
bool activity_has_listener();

// For the time of an API call that gives work. One inside another is part of that.
class ApiActivity {
 public:
  ApiActivity();
  ~ApiActivity();
  ApiActivity(const ApiActivity&) = delete;
  ApiActivity& operator=(const ApiActivity&) = delete;

 private:
  bool outermost_;
};
std::uint32_t current_correlation();  // of this thread's API call; 0: none, or nobody listens

void tell_ran(const Operation& operation, const Work& work);

}  // namespace gpusim
