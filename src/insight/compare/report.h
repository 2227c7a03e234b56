// A comparison for people and for programs.
#pragma once

#include <string>

#include "insight/compare/comparison.h"

namespace trifold {

// Tables of at most 120 columns (where the plans' names are short), the winner, and why the others lost.
std::string to_text(const Comparison& comparison);

// One object, on one line: see "What scripts rely on" in DESIGN.md.
std::string to_json_text(const Comparison& comparison);

}  // namespace trifold
