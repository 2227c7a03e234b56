// Places in words, for reports: kernel, block, thread, source line and PTX text.
#pragma once

#include <string>
#include <string_view>

#include "ptx/execution.h"

namespace gpusim::ptx {

// "in kernel k, block (1,0,0), thread (5,0,0), at file.cu:12 [PTX line 80: st.global.f32 ...]" of the current
// instruction.
std::string location(const Execution& run, std::uint32_t lane);
std::string source_of(const PtxKernel& kernel, std::uint32_t pc);     // "file.cu:12", or "PTX line 80" without .loc
std::string thread_name(const Execution& run, std::uint32_t thread);  // "(5,0,0)"
std::string block_name(const Execution& run, std::uint32_t number);

std::string one_line(std::string_view text);  // runs of white space become one blank
std::string demangled_without_arguments(std::string_view name);

// Ends the kernel with a report of the current instruction.
[[noreturn]] void fail(const Execution& run, Finding finding, std::uint32_t lane, const std::string& what);
// Reports and goes on: the first of its kind in a launch only.
void note(Execution& run, Finding finding, std::uint32_t lane, const std::string& what);

}  // namespace gpusim::ptx
