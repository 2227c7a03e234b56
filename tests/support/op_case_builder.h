// Writes an OpCase value by value and step by step. For the files op_cases_*.cpp, each of which registers the cases of
// one family of ops.
#pragma once

#include <memory>
#include <utility>

#include "support/op_cases.h"

namespace trifold::test {

class OpCaseBuilder {
 public:
  explicit OpCaseBuilder(std::string name) { case_.name = std::move(name); }

  int activation(const std::string& name, const Shape& shape, Draw draw = Draw::normal, std::int64_t pixels = 1) {
    return add({.name = name, .desc = {shape}, .draw = draw, .activation = true, .pixels = pixels});
  }
  int parameter(const std::string& name, const Shape& shape, Draw draw = Draw::normal) {
    return add({.name = name, .desc = {shape}, .draw = draw});
  }
  int labels(Draw draw, std::int64_t count, std::int64_t limit) {
    return add({.name = "labels", .desc = {Shape{count}, DType::i32}, .draw = draw, .limit = limit});
  }
  int raw_images(const Shape& shape) { return add({.name = "raw", .desc = {shape, DType::u8}, .draw = Draw::bytes}); }
  int made(const std::string& name, const Shape& shape, DType dtype = DType::f32) {
    return add({.name = name, .desc = {shape, dtype}});
  }
  int opaque(const std::string& name, const Shape& shape) {
    return add({.name = name, .desc = {shape, DType::u8}, .opaque = true});
  }
  int with_layout(const std::string& name, const TensorDesc& desc, Draw draw) {
    return add({.name = name, .desc = desc, .draw = draw});
  }

  template <class T>
  OpCaseBuilder& step(const T& op, std::vector<int> in, std::vector<int> out) {
    case_.steps.push_back({std::make_shared<const T>(op), std::move(in), std::move(out)});
    return *this;
  }
  OpCaseBuilder& objective(int value, int weights = -1) {
    case_.objectives.push_back({value, weights});
    return *this;
  }
  OpCaseBuilder& gradient(int of, int gradient) {
    case_.gradients.push_back({of, gradient});
    return *this;
  }
  OpCase build() { return std::move(case_); }

 private:
  int add(CaseValue value) {
    case_.values.push_back(std::move(value));
    return static_cast<int>(case_.values.size()) - 1;
  }

  OpCase case_;
};

// At namespace scope in the file of a family of ops: `add` appends the family's cases to op_cases().
struct RegisterOpCases {
  explicit RegisterOpCases(void (*add)(std::vector<OpCase>& cases));
};

}  // namespace trifold::test
