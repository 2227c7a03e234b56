// States of slices as messages: how replicas are made and kept, slices move, and managers read and write a model. The
// numbers go as they are, values and then states, slice after slice.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/servers/server/slice_state.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/wire/message.h"

namespace trifold {

// What all members know of the model before a message comes.
struct ServedLayout {
  std::vector<ServedTensor> tensors = {};
  std::vector<Slice> slices = {};
  int states = 0;  // arrays of the optimiser a trained slice has
  int shards = 1;

  const ServedTensor& tensor_of(int slice) const {
    return tensors[static_cast<std::size_t>(slices[static_cast<std::size_t>(slice)].tensor)];
  }
  int states_of(int slice) const { return tensor_of(slice).trained ? states : 0; }
  std::size_t elements_of(int slice) const {
    return static_cast<std::size_t>(slices[static_cast<std::size_t>(slice)].elements());
  }
  std::size_t state_bytes(int slice) const {
    return elements_of(slice) * static_cast<std::size_t>(1 + states_of(slice)) * sizeof(float);
  }
  std::size_t all_state_bytes() const {
    std::size_t bytes = 0;
    for (int slice = 0; slice < static_cast<int>(slices.size()); ++slice) bytes += state_bytes(slice);
    return bytes;
  }
};

using NumberedState = std::pair<int, SliceState>;  // slice

// Adds "slices" and "sizes" to the message's fields, and the payload. with_history: also the values before, where
// known, and the cuts, each as a slice of its own after the one that has it.
void put_states(Message& message, const std::vector<NumberedState>& states, const ServedLayout& layout,
                bool with_history = false);
// An Error says what is wrong: the message may come from anybody.
std::vector<NumberedState> take_states(const Message& message, const ServedLayout& layout);

// The slices a request names, each in range. An Error where there are none such.
std::vector<int> take_slices(const Message& message, const ServedLayout& layout);

}  // namespace trifold
