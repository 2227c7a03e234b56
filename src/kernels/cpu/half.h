// 16-bit tensors on the CPU: conversion by all threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace trifold::cpu {

// Any of f32, f16, bf16 into any of them; times `scale` on the way when it is not 1.
void convert(DType from_type, const std::byte* from, DType to_type, std::byte* to, std::int64_t elements,
             float scale = 1);

}  // namespace trifold::cpu
