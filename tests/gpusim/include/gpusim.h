// What a test may ask the simulator. Resolved with dlsym from the stand-in libcudart (see gpusim_client.h), so that the
// same test program also runs against the real library, where these are absent.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Errors found since the process began (or since gpusim_take_reports).
int gpusim_report_count();
// Copies the texts of all reports so far, one a line, into `text` (cut to `capacity`), forgets them, and returns how
// many there were.
int gpusim_take_reports(char* text, std::size_t capacity);

// What a kernel launch did. Figures never vary: they depend on the kernel, its arguments and its data only.
struct GpusimLaunch {
  char kernel[256];  // demangled, without its arguments
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint64_t warp_instructions;
  std::uint64_t lane_instructions;   // active lanes only
  std::uint64_t divergent_branches;  // branches whose lanes went both ways
  std::uint64_t global_read_bytes;   // asked for by active lanes
  std::uint64_t global_write_bytes;
  std::uint64_t global_read_sectors;  // of 32 bytes, counted once for each warp instruction that touches them
  std::uint64_t global_write_sectors;
  std::uint64_t shared_accesses;   // warp instructions on shared memory
  std::uint64_t shared_conflicts;  // extra passes: (largest number of different words in one bank) - 1, summed
  std::uint64_t atomics;
};

// Statistics are kept for every launch while on (off at first). `index` counts from the last start.
void gpusim_statistics(int on);
int gpusim_launch_count();
int gpusim_launch(int index, GpusimLaunch* launch);  // 0: done, 1: no such launch

// "lazy": streams run as late as ordering allows; "eager": at once. Takes effect for work enqueued from now on.
void gpusim_set_order(const char* order);

// Writes the PTX of every module of the process into a folder, 0.ptx, 1.ptx and so on, and returns how many.
int gpusim_write_ptx(const char* folder);
}
