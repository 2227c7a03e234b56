#include "runtime/train/served_tensors.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"
#include "parallel/tensor/shard.h"

namespace trifold {
namespace {

constexpr std::int64_t kWorthThreads = 1 << 15;  // elements

bool same_part(const Shard& a, const Shard& b) {
  return a.dim == b.dim && a.index == b.index && a.count == b.count && a.column == b.column && a.columns == b.columns;
}

// Steps need the way between memory and tensor again and again: it is worked out once.
std::shared_ptr<const std::vector<std::uint32_t>> places_of(const TensorDesc& desc, const Shard& shard) {
  if (desc.layout.plain() && shard.dim < 0) return nullptr;
  const Shape whole = shard.whole_shape(desc.shape);
  TRIFOLD_CHECK(whole.elements() <= std::numeric_limits<std::uint32_t>::max(), "a tensor of {} elements",
                whole.elements());
  const std::vector<std::uint32_t> part = indices_of_shard(whole, shard);
  auto places = std::make_shared<std::vector<std::uint32_t>>(part.size());
  for (std::size_t i = 0; i < part.size(); ++i)
    (*places)[static_cast<std::size_t>(offset_in(desc.layout, desc.shape, static_cast<std::int64_t>(i)))] = part[i];
  return places;
}

template <class Copy>
void for_elements(std::size_t count, const Copy& copy) {
  const auto elements = static_cast<std::int64_t>(count);
  if (elements < kWorthThreads)
    copy(Range{0, elements});
  else
    parallel_for(elements, copy);
}

}  // namespace

bool ServedTensors::Tensor::lies_plainly() const {
  return std::ranges::all_of(holders, [](const Holder& holder) { return holder.on_host() && !holder.places; });
}

void ServedTensors::add(const Model& model, int rank, int chunk, const MeshPlace& place, bool decay_all) {
  const std::vector<Model::Held> held = model.held();
  for (std::size_t i = 0; i < held.size(); ++i) {
    const Parameter& parameter = *held[i].parameter;
    const bool trained = held[i].gradient != nullptr;
    auto tensor = std::ranges::find_if(tensors_, [&](const Tensor& t) { return t.served.name == parameter.name; });
    if (tensor == tensors_.end()) {
      tensors_.push_back({.served = {.name = parameter.name,
                                     .elements = parameter.whole_shape(held[i].desc->shape).elements(),
                                     .trained = trained,
                                     .decays = trained && (parameter.decay || decay_all)},
                          .holders = {},
                          .parts = parameter.shard.parts()});
      tensor = tensors_.end() - 1;
    }
    TRIFOLD_CHECK(tensor->parts == parameter.shard.parts() && held[i].desc->dtype == DType::f32,
                  "'{}' is another tensor on another rank", parameter.name);
    Holder holder{.rank = rank,
                  .chunk = chunk,
                  .parameter = static_cast<int>(i),
                  .model = &model,
                  .shard = parameter.shard,
                  .layout = held[i].desc->layout,
                  .elements = static_cast<std::size_t>(held[i].desc->elements()),
                  .values = held[i].values,
                  .gradient = held[i].gradient};
    const auto twin = std::ranges::find_if(tensor->holders, [&](const Holder& other) {
      return same_part(other.shard, holder.shard) && other.layout == holder.layout;
    });
    holder.places = twin != tensor->holders.end() ? twin->places : places_of(*held[i].desc, parameter.shard);
    // Replicas agree; of tensor ranks that have the same part, so do they.
    holder.is_primary = place.data == 0 && std::ranges::none_of(tensor->holders, [&](const Holder& other) {
                          return same_part(other.shard, holder.shard);
                        });
    tensor->holders.push_back(std::move(holder));
  }
}

void ServedTensors::take(const Holder& holder, const std::byte* from, std::span<float> whole) const {
  if (!holder.places) {
    TRIFOLD_CHECK(whole.size() == holder.elements, "{} elements of {}", holder.elements, whole.size());
    return holder.model->device().download(whole.data(), from, whole.size_bytes());
  }
  std::vector<float> downloaded;
  if (!holder.on_host()) {
    downloaded.resize(holder.elements);
    holder.model->device().download(downloaded.data(), from, holder.elements * sizeof(float));
  }
  const float* values = holder.on_host() ? reinterpret_cast<const float*>(from) : downloaded.data();
  const std::uint32_t* places = holder.places->data();
  for_elements(holder.elements, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) whole[places[i]] = values[i];
  });
}

void ServedTensors::put(const Holder& holder, std::span<const float> whole) const {
  if (!holder.places) {
    TRIFOLD_CHECK(whole.size() == holder.elements, "{} elements of {}", holder.elements, whole.size());
    return holder.model->device().upload(holder.values, whole.data(), whole.size_bytes());
  }
  std::vector<float> laid_out;
  if (!holder.on_host()) laid_out.resize(holder.elements);
  float* values = holder.on_host() ? holder.floats().data() : laid_out.data();
  const std::uint32_t* places = holder.places->data();
  for_elements(holder.elements, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) values[i] = whole[places[i]];
  });
  if (!holder.on_host()) holder.model->device().upload(holder.values, laid_out.data(), holder.elements * sizeof(float));
}

}  // namespace trifold
