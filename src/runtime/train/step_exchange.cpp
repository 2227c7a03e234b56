#include "runtime/train/step_exchange.h"

#include <algorithm>
#include <optional>
#include <ranges>

#include "core/error.h"

namespace trifold {
namespace {

bool overlap(const Place& a, const Place& b) {
  return a.region == b.region && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool touches(const Program& program, const std::vector<ValueId>& values, const Place& place) {
  return std::ranges::any_of(
      values, [&](ValueId id) { return overlap(program.memory.places[static_cast<std::size_t>(id)], place); });
}

// By memory: nodes may know a tensor as a part of another value, or as a view of one.
std::optional<std::size_t> first_user_of(const Program& program, const Place& place) {
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const Node& node = program.graph.nodes[i];
    if (program.kernels[i] && (touches(program, node.in, place) || touches(program, node.out, place))) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> last_writer_of(const Program& program, const Place& place) {
  for (std::size_t i = program.graph.nodes.size(); i-- > 0;)
    if (program.kernels[i] && touches(program, program.graph.nodes[i].out, place)) return i;
  return std::nullopt;
}

}  // namespace

StepExchange::StepExchange(const ServedTensors& tensors, ParameterExchange& other, bool early)
    : tensors_(tensors),
      other_(other),
      early_(early),
      of_tensor_(tensors.all().size()),
      states_(tensors.all().size()),
      parts_left_(tensors.all().size()) {
  for (std::size_t i = 0; i < tensors.all().size(); ++i) {
    const ServedTensors::Tensor& tensor = tensors.all()[i];
    const auto elements = static_cast<std::size_t>(tensor.served.elements);
    on_host_ = on_host_ && tensor.holders.front().on_host();
    if (tensor.parts > 1 || !on_host_) of_tensor_[i].resize(elements);
    for (std::size_t h = 0; h < tensor.holders.size(); ++h) {
      const ServedTensors::Holder& holder = tensor.holders[h];
      chunk_of(holder).members_.push_back({.tensor = static_cast<int>(i), .holder = h});
      const auto rank = static_cast<std::size_t>(holder.rank);
      of_rank_.resize(std::max(of_rank_.size(), rank + 1));
      if (of_tensor_[i].empty() && !tensor.lies_plainly() && of_rank_[rank].size() < elements)
        of_rank_[rank].resize(elements);
    }
  }
  for (Chunk& chunk : chunks_)
    for (std::size_t i = 0; i < chunk.members_.size(); ++i) watch(chunk.members_[i], chunk, i);
}

StepExchange::Chunk& StepExchange::chunk_of(const ServedTensors::Holder& holder) {
  for (Chunk& chunk : chunks_)
    if (chunk.rank_ == holder.rank && chunk.chunk_ == holder.chunk) return chunk;
  Chunk& chunk = chunks_.emplace_back(*this, holder.rank, holder.chunk);
  chunk.needs_.resize(holder.model->training().program().graph.nodes.size());
  chunk.readies_.resize(chunk.needs_.size());
  return chunk;
}

void StepExchange::watch(Chunk::Member& member, Chunk& chunk, std::size_t index) {
  const ServedTensors::Holder& holder = tensors_[member.tensor].holders[member.holder];
  const Program& program = holder.model->training().program();
  const Parameter& parameter = program.graph.parameters[static_cast<std::size_t>(holder.parameter)];
  const auto place_of_value = [&](ValueId id) { return program.memory.places[static_cast<std::size_t>(id)]; };
  const std::optional<std::size_t> user = first_user_of(program, place_of_value(parameter.value));
  if (user)
    chunk.needs_[*user].push_back(member.tensor);
  else if (member.holder == 0)
    unread_.push_back(member.tensor);
  if (!early_ || holder.gradient == nullptr) return;
  const std::optional<std::size_t> writer = last_writer_of(program, place_of_value(parameter.gradient));
  if (!writer) return;
  std::vector<std::size_t>& readies = chunk.readies_[*writer];
  readies.insert(readies.begin(), index);  // the last layer's first
}

NodeWatcher* StepExchange::watcher(int rank, int chunk) {
  if (!on_host_) return nullptr;
  const auto found =
      std::ranges::find_if(chunks_, [&](const Chunk& other) { return other.rank_ == rank && other.chunk_ == chunk; });
  return found == chunks_.end() ? nullptr : &*found;  // a chunk may have no tensors
}

void StepExchange::Chunk::before(std::size_t node) {
  for (const int tensor : needs_[node]) whole_.ask(tensor, rank_);
}

void StepExchange::Chunk::after(std::size_t node) {
  for (const std::size_t member : readies_[node]) whole_.hand_out(members_[member], rank_);
}

// Memory of the whole tensor, other than its holders'.
std::span<float> StepExchange::buffer_of(int tensor, int rank) {
  std::vector<float>& own = of_tensor_[static_cast<std::size_t>(tensor)];
  if (!own.empty()) return own;
  return std::span(of_rank_[static_cast<std::size_t>(rank)])
      .first(static_cast<std::size_t>(tensors_[tensor].served.elements));
}

// The first rank that needs it asks for all that have it.
void StepExchange::ask(int tensor, int rank) {
  State& state = states_[static_cast<std::size_t>(tensor)];
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state != State::asked || !failure_.empty(); });
    if (!failure_.empty()) fail_runtime("{}", failure_);
    if (state == State::there) return;
    state = State::asked;
  }
  fill(tensor, rank);
  {
    const std::lock_guard lock(mutex_);
    state = State::there;
  }
  changed_.notify_all();
}

// Other ranks' memory is written, too: none of them has come to a node that reads it.
void StepExchange::fill(int tensor, int rank) {
  const std::vector<ServedTensors::Holder>& holders = tensors_[tensor].holders;
  if (tensors_[tensor].lies_plainly()) {
    const std::span<float> values = holders.front().floats();
    if (!other_.need_parameter(tensor, values)) return;
    for (const ServedTensors::Holder& holder : holders | std::views::drop(1)) tensors_.put(holder, values);
    return;
  }
  const std::span<float> whole = buffer_of(tensor, rank);
  if (!other_.need_parameter(tensor, whole)) return;
  for (const ServedTensors::Holder& holder : holders) tensors_.put(holder, whole);
}

void StepExchange::hand_out(Chunk::Member& member, int rank) {
  member.handed_out = true;
  const ServedTensors::Tensor& tensor = tensors_[member.tensor];
  const ServedTensors::Holder& holder = tensor.holders[member.holder];
  if (!holder.is_primary) return;
  if (!holder.places && on_host_) {
    other_.gradient_ready(member.tensor, {reinterpret_cast<const float*>(holder.result()), holder.elements});
    return;
  }
  const std::span<float> whole = buffer_of(member.tensor, rank);
  tensors_.take(holder, holder.result(), whole);
  {
    const std::lock_guard lock(mutex_);
    if (--parts_left_[static_cast<std::size_t>(member.tensor)] > 0) return;
  }
  if (on_host_) other_.gradient_ready(member.tensor, whole);
}

void StepExchange::hand_out_rest(Chunk& chunk, bool trained) {
  for (Chunk::Member& member : std::views::reverse(chunk.members_))
    if (!member.handed_out && tensors_[member.tensor].served.trained == trained) hand_out(member, chunk.rank_);
}

void StepExchange::begin() {
  {
    const std::lock_guard lock(mutex_);
    std::ranges::fill(states_, State::unknown);
    for (std::size_t i = 0; i < parts_left_.size(); ++i) parts_left_[i] = tensors_.all()[i].parts;
    failure_.clear();
  }
  for (Chunk& chunk : chunks_)
    for (Chunk::Member& member : chunk.members_) member.handed_out = false;
  if (on_host_) {
    for (const int tensor : unread_) ask(tensor, tensors_[tensor].holders.front().rank);
    return;
  }
  for (std::size_t i = 0; i < of_tensor_.size(); ++i)
    if (other_.need_parameter(static_cast<int>(i), of_tensor_[i])) states_[i] = State::there;
}

void StepExchange::begin(int rank) {
  if (on_host_) return;
  for (const Chunk& chunk : chunks_) {
    if (chunk.rank_ != rank) continue;
    for (const Chunk::Member& member : chunk.members_)
      if (states_[static_cast<std::size_t>(member.tensor)] == State::there)
        tensors_.put(tensors_[member.tensor].holders[member.holder],
                     of_tensor_[static_cast<std::size_t>(member.tensor)]);
  }
}

void StepExchange::end(int rank) {
  for (const bool trained : {true, false})
    for (Chunk& chunk : std::views::reverse(chunks_))
      if (chunk.rank_ == rank) hand_out_rest(chunk, trained);
}

void StepExchange::end() {
  if (on_host_) return;
  for (const bool trained : {true, false})
    for (std::size_t i = of_tensor_.size(); i-- > 0;)
      if (tensors_.all()[i].served.trained == trained) other_.gradient_ready(static_cast<int>(i), of_tensor_[i]);
}

void StepExchange::abort(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = why;
  }
  changed_.notify_all();
}

}  // namespace trifold
