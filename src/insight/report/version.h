// Trifold's version, as CMakeLists.txt names it.
#pragma once

namespace trifold {

const char* version();  // "0.1.0"

}  // namespace trifold
