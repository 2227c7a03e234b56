// Compares each kernel of a program with the reference, on the inputs that it had when it ran: a fault of a kernel is
// seen at its own place, however little of it reaches the network's results, and in 16 bits as sharply as in float.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/executor/executable.h"
#include "runtime/executor/node_watcher.h"

namespace trifold::test {

class NodeCheck final : public NodeWatcher {
 public:
  // `report` hears of every comparison: what was compared, the largest error and what is allowed.
  using Report = std::function<void(const std::string& what, double error, double allowed)>;

  NodeCheck(Executable& program, bool strict_math, Report report);
  ~NodeCheck() override;

  void set_step(const StepContext& context) { context_ = context; }  // that the program will run with
  void before(std::size_t node) override;
  void after(std::size_t node) override;
  int compared() const { return compared_; }

 private:
  struct Tensor {
    TensorDesc desc;          // plain, f64 for every float type
    DType type = DType::f32;  // as the program has it
    std::vector<double> floats = {};
    std::vector<std::byte> others = {};
    std::byte* data() { return others.empty() ? reinterpret_cast<std::byte*>(floats.data()) : others.data(); }
  };
  struct Worst {
    double error = 0;
    double allowed = 0;
  };
  // Output `out`, in all its elements.
  Worst compare(const Node& node, const Tensor& mine, const Tensor& exact,
                const std::vector<std::vector<Tensor>>& disturbed, std::size_t out, bool winograd) const;
  bool can_compare(const Node& node) const;
  bool has_overflowed() const;
  double equal_terms_error(const Node& node, std::size_t out) const;
  Tensor read(const Node& node, Op::Side side, std::size_t index) const;
  std::vector<Tensor> run_reference(const Node& node, std::vector<Tensor> in, std::uint64_t noise_seed) const;

  Executable& program_;
  bool strict_math_;
  StepContext context_;
  Report report_;
  std::vector<Tensor> in_;
  // A backend has bits in an order of its own. What reads them is given those that the reference wrote.
  std::map<ValueId, std::vector<std::byte>> masks_;
  int compared_ = 0;
};

}  // namespace trifold::test
