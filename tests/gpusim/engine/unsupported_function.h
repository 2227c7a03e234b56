// GPUSIM_NO(name): a function of a library that the simulator does not have. A call is reported by name; none is
// guessed. For files that do not include the library's header, so that the function needs no parameters. kNotSupported
// is the file's: what the library returns for it.
#pragma once

#include "engine/library.h"

#define GPUSIM_NO(function)                                  \
  GPUSIM_EXPORT int function() {                             \
    gpusim::report(gpusim::Finding::unsupported, #function); \
    return kNotSupported;                                    \
  }
