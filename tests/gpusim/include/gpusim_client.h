// The simulator as a test sees it: include/gpusim.h, looked up in whatever libcudart the program runs with. On a real
// device there is none: available() is false, no reports are ever found and nothing is counted.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "gpusim.h"

namespace gpusim_client {

// The runtime may be linked to the program, or have come with a library that the program loaded for itself.
template <class Function>
Function* find(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (!found) {
    if (void* runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD)) found = dlsym(runtime, name);
  }
  return reinterpret_cast<Function*>(found);
}

inline bool available() {
  return find<int()>("gpusim_report_count") != nullptr;
}

inline int report_count() {
  auto* count = find<int()>("gpusim_report_count");
  return count ? count() : 0;
}

// The reports so far ("stream_race: write by ..."), which are then forgotten and do not fail the process.
inline std::vector<std::string> take_reports() {
  auto* take = find<int(char*, std::size_t)>("gpusim_take_reports");
  if (!take) return {};
  std::string text(std::size_t{1} << 20, '\0');
  take(text.data(), text.size());
  std::istringstream lines(text.c_str());
  std::vector<std::string> reports;
  for (std::string line; std::getline(lines, line);) reports.push_back(line);
  return reports;
}

inline void set_order(const char* order) {
  if (auto* set = find<void(const char*)>("gpusim_set_order")) set(order);
}

inline void statistics(bool on) {
  if (auto* turn = find<void(int)>("gpusim_statistics")) turn(on);
}

// The launches since statistics were turned on.
inline std::vector<GpusimLaunch> launches() {
  auto* count = find<int()>("gpusim_launch_count");
  auto* get = find<int(int, GpusimLaunch*)>("gpusim_launch");
  std::vector<GpusimLaunch> all;
  if (!count || !get) return all;
  all.resize(static_cast<std::size_t>(count()));
  for (std::size_t i = 0; i < all.size(); ++i) get(static_cast<int>(i), &all[i]);
  return all;
}

// How many modules' PTX is now in that folder, as 0.ptx, 1.ptx and so on.
inline int write_ptx(const std::string& folder) {
  auto* write = find<int(const char*)>("gpusim_write_ptx");
  return write ? write(folder.c_str()) : 0;
}

}  // namespace gpusim_client
