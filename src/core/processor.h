// What this machine's processor calls itself.
#pragma once

#include <string>

namespace trifold {

std::string processor_name();  // "AMD EPYC 9R14"

}  // namespace trifold
