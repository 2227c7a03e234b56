// A backend against the reference, for one op case. Each step starts from the reference's values, so errors do not add
// up.
#pragma once

#include <set>
#include <string>

#include "support/op_cases.h"

namespace trifold::test {

struct ComparedBackend {
  const Backend& backend;
  Device* device = &host_device();
};

// How the backend blocks channels: as it wants the output of an ordinary convolution. 0: it does not.
int native_block(const Backend& backend);

struct ComparisonVariant {
  int block = 0;
  bool in_place = false;
  bool strict_math = false;
};

// Runs the case and expects the same results (GoogleTest failures); returns the names of ops that the backend lacks.
std::set<std::string> compare_with_reference(const ComparedBackend& tested, const OpCase& op_case,
                                             const ComparisonVariant& variant);

}  // namespace trifold::test
