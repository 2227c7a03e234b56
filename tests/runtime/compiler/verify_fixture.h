// What the tests of the verifier share: a sentence that a check must refuse with, and ops for tiny graphs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/ops/activation.h"

namespace trifold::test {

inline void expect_refused(const std::function<void()>& verify, const std::string& sentence) {
  try {
    verify();
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "internal error: after a pass, " + sentence);
    EXPECT_EQ(error.fault(), Fault::runtime);
  }
}

template <class T>
OpPtr made(T op) {
  return std::make_shared<const T>(std::move(op));
}
inline OpPtr relu() {
  return made(ActivationForward{});
}
inline OpPtr relu_gradient() {
  return made(ActivationBackward{});
}

}  // namespace trifold::test
