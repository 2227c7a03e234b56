// Texts of reports.
#include "ptx/location.h"

#include <cstdlib>
#include <memory>

#include <cxxabi.h>

namespace gpusim::ptx {
namespace {

std::string triple(std::uint64_t number, const Dim3& size) {
  return "(" + std::to_string(number % size.x) + "," + std::to_string(number / size.x % size.y) + "," +
         std::to_string(number / size.x / size.y) + ")";
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!is_space) {
      result += c;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  return result;
}

std::string source_of(const PtxKernel& kernel, std::uint32_t pc) {
  const Origin& origin = kernel.origins[pc];
  const auto& files = kernel.module->tokenized.files;
  const auto file = files.find(origin.source.file);
  if (file == files.end() || origin.source.line == 0) return "PTX line " + std::to_string(origin.ptx_line);
  std::string place = file->second + ":" + std::to_string(origin.source.line);
  if (const auto caller = files.find(origin.source.caller_file); caller != files.end())
    place += " (inlined at " + caller->second + ":" + std::to_string(origin.source.caller_line) + ")";
  return place;
}

std::string thread_name(const Execution& run, std::uint32_t thread) {
  return triple(thread, run.launch.block);
}

std::string block_name(const Execution& run, std::uint32_t number) {
  return triple(number, run.launch.grid);
}

std::string location(const Execution& run, std::uint32_t lane) {
  const Origin& origin = run.kernel.origins[run.pc];
  const std::uint32_t thread = (run.warp == nullptr ? 0 : run.warp->index * kLanes) + lane;
  return "in kernel " + run.kernel.display_name + ", block " + block_name(run, run.block_number) + ", thread " +
         thread_name(run, thread) + ", at " + source_of(run.kernel, run.pc) + " [PTX line " +
         std::to_string(origin.ptx_line) + ": " + one_line(origin.text) + "]";
}

std::string demangled_without_arguments(std::string_view name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0) return std::string(name);
  std::string text = demangled.get();
  // The argument list is the last parenthesis that opens at depth 0; template arguments may hold others.
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) {
      text.resize(at);
      break;
    }
  }
  if (text.starts_with("void ")) text.erase(0, 5);
  return text;
}

void fail(const Execution& run, Finding finding, std::uint32_t lane, const std::string& what) {
  throw Fault{finding, what + " " + location(run, lane)};
}

void note(Execution& run, Finding finding, std::uint32_t lane, const std::string& what) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(finding);
  if ((run.reported & bit) != 0) return;
  run.reported |= bit;
  report(finding, what + " " + location(run, lane));
}

}  // namespace gpusim::ptx
