// A model's tensors from outside: whole and in row-major order, whichever ranks have which parts of them, and however
// they lie there. In the network's order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/mesh.h"
#include "parallel/servers/slices/slice.h"
#include "runtime/train/model.h"

namespace trifold {

class ServedTensors {
 public:
  // A rank that has a tensor, or a part of it.
  struct Holder {
    int rank = 0;   // of those here
    int chunk = 0;  // of its stage
    int parameter = 0;
    const Model* model = nullptr;
    Shard shard = {};
    Layout layout = {};
    std::size_t elements = 0;  // that it has
    std::byte* values = nullptr;
    std::byte* gradient = nullptr;  // null: not trained
    bool is_primary = false;        // of all that have this part, the one that hands it out
    // Of its elements, one after the other in its memory, where they are in the whole; null: just there.
    std::shared_ptr<const std::vector<std::uint32_t>> places = {};

    bool on_host() const { return model->device().host_memory(); }
    std::span<float> floats() const { return {reinterpret_cast<float*>(values), elements}; }
    // What a step leaves for others: the gradient, or a tensor that is not trained.
    std::byte* result() const { return gradient != nullptr ? gradient : values; }
  };
  struct Tensor {
    ServedTensor served;
    std::vector<Holder> holders;
    int parts = 0;  // that make the whole

    // Whether the memory of every holder is the tensor as others see it.
    bool lies_plainly() const;
  };

  // Chunks of ranks are added in the order of the network's parts, those of a part in the order of ranks.
  void add(const Model& model, int rank, int chunk, const MeshPlace& place, bool decay_all);

  const std::vector<Tensor>& all() const { return tensors_; }
  const Tensor& operator[](int tensor) const { return tensors_[static_cast<std::size_t>(tensor)]; }

  // What the holder has, to its places in `whole`, from its memory at `from`; and the other way, to its values. On the
  // holder's thread where its device is not the host.
  void take(const Holder& holder, const std::byte* from, std::span<float> whole) const;
  void put(const Holder& holder, std::span<const float> whole) const;

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace trifold
