// How much memory this process has taken.
#pragma once

#include <cstddef>

namespace trifold {

std::size_t peak_process_bytes();  // resident, so far

}  // namespace trifold
