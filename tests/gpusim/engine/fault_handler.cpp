#include "engine/fault_handler.h"

#include <cstdio>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>

#include "engine/device_memory.h"
#include "engine/pinned_memory.h"
#include "engine/streams.h"

#ifndef __x86_64__
#error "the fault handler steps over single x86-64 instructions"
#endif

namespace gpusim {
namespace {

struct sigaction previous_segv, previous_trap;

constexpr greg_t kTrapFlag = 0x100;    // of the flags register: stop after one instruction
constexpr greg_t kErrorIsWrite = 0x2;  // of a page fault's error code

// Pages opened for the one instruction this thread is stepping over; an instruction touches few.
constexpr int kMaxSteppedPages = 8;
thread_local Address stepped_pages[kMaxSteppedPages];
thread_local int stepped_page_count = 0;

std::string frame_text(void* frame) {
  Dl_info info = {};
  if (!dladdr(frame, &info) || !info.dli_fname) return hex(reinterpret_cast<Address>(frame));
  const char* slash = std::strrchr(info.dli_fname, '/');
  const Address offset = reinterpret_cast<Address>(frame) - reinterpret_cast<Address>(info.dli_fbase);
  std::string text = (slash ? slash + 1 : info.dli_fname) + std::string("+") + hex(offset);
  return info.dli_sname ? std::string(info.dli_sname) + " (" + text + ")" : text;
}

// The faulting instruction and who called it, innermost first.
std::string backtrace_text(void* instruction) {
  constexpr int kFramesShown = 4;
  void* frames[64];
  const int count = backtrace(frames, 64);
  int first = 0;
  while (first < count && frames[first] != instruction) ++first;
  std::string text = " at " + frame_text(instruction);
  for (int i = first + 1; i < count && i <= first + kFramesShown; ++i) text += " < " + frame_text(frames[i]);
  return text;
}

void pass_on(int signal_number, const struct sigaction& previous) {
  sigaction(signal_number, &previous, nullptr);  // the instruction runs again and faults into it
}

void on_segv(int, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto address = reinterpret_cast<Address>(info->si_addr);
  void* instruction = reinterpret_cast<void*>(registers[REG_RIP]);
  const bool is_write = (registers[REG_ERR] & kErrorIsWrite) != 0;
  if (DeviceMemory::get().contains(address)) {
    fatal(Finding::device_pointer_on_host, std::string("the host ") + (is_write ? "writes" : "reads") +
                                               " device memory; " + DeviceMemory::get().describe(address) +
                                               backtrace_text(instruction));
  }
  auto& pinned = PinnedMemory::get();
  if (!pinned.contains(address)) return pass_on(SIGSEGV, previous_segv);

  std::lock_guard lock(simulator_lock());
  std::string text;
  switch (pinned.judge(address, is_write, text)) {
    case PinnedMemory::HostAccess::conflicts:
      report(Finding::host_race, text + backtrace_text(instruction));
      pinned.open_block(address);
      return;
    case PinnedMemory::HostAccess::outside:
      fatal(text.find("freed") != std::string::npos ? Finding::use_after_free : Finding::out_of_bounds,
            "the host touches pinned memory that it does not have; " + text + backtrace_text(instruction));
    case PinnedMemory::HostAccess::allowed:
      break;
  }
  if (stepped_page_count == kMaxSteppedPages) fatal(Finding::unsupported, "an instruction with too many pages");
  stepped_pages[stepped_page_count++] = address;
  pinned.set_page(address, /*open=*/true);
  registers[REG_EFL] |= kTrapFlag;
}

void on_trap(int, siginfo_t*, void* context) {
  if (stepped_page_count == 0) return pass_on(SIGTRAP, previous_trap);
  std::lock_guard lock(simulator_lock());
  while (stepped_page_count > 0) PinnedMemory::get().set_page(stepped_pages[--stepped_page_count], /*open=*/false);
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
}

void install(int signal_number, void (*handler)(int, siginfo_t*, void*), struct sigaction& previous) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(signal_number, &action, &previous);
}

}  // namespace

void install_fault_handler() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs now, not inside the handler
  DeviceMemory::get();
  PinnedMemory::get();
  install(SIGSEGV, on_segv, previous_segv);
  install(SIGTRAP, on_trap, previous_trap);
}

}  // namespace gpusim
