// Whether this processor executes products of bf16. Some report the instructions and then fault on them, so they are
// tried first, in a process of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace trifold::cpu {

// "" if it does, else why not: "its processor has no bf16 instructions". Tried once.
const std::string& why_no_bf16();

// oneDNN's kernels for a convolution or a fully connected layer of bf16 tensors; none for all else, and none where the
// processor does not execute them.
std::vector<KernelPtr> bf16_candidates(const KernelRequest& request);

// Runs `attempt` in a child process. "" if it returned true, else what happened instead.
std::string failure_in_child(const std::function<bool()>& attempt);

}  // namespace trifold::cpu
