// Fills a module from its tokens: functions, variables (allocated and initialised on the module's device).
#pragma once

#include "ptx/module.h"

namespace gpusim::ptx {

void parse_module(PtxModule& module);  // throws PtxError

}  // namespace gpusim::ptx
