// Every error the simulator finds goes through here: printed on standard error, kept for the test that asks, and
// counted. GPUSIM_ABORT=1 stops the process at the first one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpusim {

enum class Finding {
  out_of_bounds,
  use_after_free,
  double_free,
  misaligned,
  uninitialised_read,
  host_pointer_in_kernel,
  device_pointer_on_host,
  stream_race,  // two operations on different streams, not ordered
  host_race,    // the host touched memory that a pending copy uses
  shared_memory_race,
  block_race,  // two blocks of one launch
  divergent_barrier,
  invalid_launch,
  peer_access,   // a kernel touched another device's memory without cudaDeviceEnablePeerAccess
  invalid_call,  // an API function called with arguments the real library refuses
  collective_mismatch,
  deadlock,
  leak,
  unsupported,  // an instruction, function or flag the simulator does not have
};
const char* name_of(Finding finding);

void report(Finding finding, std::string_view text);
int report_count();
Finding last_finding();  // of the newest report

std::string hex(std::uint64_t value);  // "0x7f00", for the texts

// The simulator cannot go on: reports and ends the process.
[[noreturn]] void fatal(Finding finding, std::string_view text);

}  // namespace gpusim
