// Every op of the CPU backend gives what the reference gives, for every case, from plain and from blocked inputs, with
// and without taking over its inputs' memory, in f32 and in 16 bits.
#include <set>

#include <gtest/gtest.h>

#include "support/op_comparison.h"

namespace trifold::test {
namespace {

class OpEquality : public testing::TestWithParam<OpCase> {};

TEST_P(OpEquality, CpuEqualsReference) {
  const Backend& backend = cpu_backend();
  const int block = native_block(backend);
  std::set<std::string> missing;
  for (const int layout : block == 0 ? std::set<int>{0} : std::set<int>{0, block})
    for (const bool in_place : {false, true})
      for (const bool strict_math : {false, true}) {
        SCOPED_TRACE(testing::Message() << "block " << layout << (in_place ? ", in place" : "")
                                        << (strict_math ? ", strict" : ""));
        missing.merge(compare_with_reference({backend}, GetParam(), {layout, in_place, strict_math}));
      }
  if (missing.empty() || HasFailure()) return;
  std::string names;
  for (const std::string& name : missing) names += " " + name;
  GTEST_SKIP() << "the cpu backend has no kernel for" << names;
}

TEST_P(OpEquality, CpuEqualsReferenceIn16Bits) {
  bool ran = false;
  for (const DType type : {DType::f16, DType::bf16}) {
    const std::optional<OpCase> typed = in_precision(GetParam(), type);
    if (!typed) continue;
    ran = true;
    SCOPED_TRACE(name_of(type));
    for (const int block : {0, native_block(cpu_backend())}) compare_with_reference({cpu_backend()}, *typed, {block});
  }
  if (!ran) GTEST_SKIP() << "nothing of this case is in 16 bits";
}

INSTANTIATE_TEST_SUITE_P(Cases, OpEquality, testing::ValuesIn(op_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace trifold::test
