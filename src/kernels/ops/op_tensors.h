// The tensors of one node, and the checks that an op's check_shapes() makes on them. A check that fails calls fail(),
// which names the op; the caller of check_shapes() implements it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace trifold {

struct OpTensor {
  std::string_view name;
  Shape shape;
  DType dtype = DType::f32;
};

class OpTensors {
 public:
  OpTensors(std::vector<OpTensor> in, std::vector<OpTensor> out) : in_(std::move(in)), out_(std::move(out)) {}
  OpTensors(const OpTensors&) = delete;
  OpTensors& operator=(const OpTensors&) = delete;
  virtual ~OpTensors() = default;

  // `what` is the rest of a sentence that begins with the op: "has 3 inputs and ...". It must not return.
  [[noreturn]] virtual void fail(const std::string& what) const = 0;

  const std::vector<OpTensor>& in() const { return in_; }
  const std::vector<OpTensor>& out() const { return out_; }
  const OpTensor& in(std::size_t index) const { return in_[index]; }
  const OpTensor& out(std::size_t index) const { return out_[index]; }

  void counts(std::size_t in_count, std::size_t out_count) const;
  void rank(const OpTensor& tensor, int expected) const;
  void shape(const OpTensor& tensor, const Shape& expected) const;
  void type(const OpTensor& tensor, DType expected) const;
  void same(const OpTensor& tensor, const OpTensor& as) const { shape(tensor, as.shape); }
  void times(const OpTensor& tensor, const OpTensor& of, std::int64_t factor) const;  // elements
  void channel_vector(const OpTensor& tensor, const OpTensor& of) const;              // [C]
  // The part differs from the whole in its number of channels only. Returns that number.
  std::int64_t channels_of_part(const OpTensor& part, const OpTensor& whole) const;
  // [N,C,rows,W], everything but the rows as in `as`.
  void rows_of(const OpTensor& part, const OpTensor& as, std::int64_t rows) const;

  // So many inputs and one output, all of the shape of the first input.
  void all_alike(std::size_t in_count) const;

 private:
  std::vector<OpTensor> in_;
  std::vector<OpTensor> out_;
};

}  // namespace trifold
