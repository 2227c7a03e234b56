// What every target checks: a reader may refuse its input, and only as the input's fault. Any other exception, and an
// Error that blames Trifold itself (a failed TRIFOLD_CHECK), ends the process, which libFuzzer reports with the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "core/error.h"

namespace trifold::fuzz {

[[noreturn]] inline void report_defect(const char* what) {
  std::fprintf(stderr, "defect: %s\n", what);
  std::abort();
}

// Whether `body` accepted the input.
template <class Body>
bool accepts(Body&& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.fault() != Fault::input) report_defect(error.what());
    return false;
  }
}

inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

}  // namespace trifold::fuzz
