#include "runtime/data/loader.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"

namespace trifold {

struct Loader::Slot {
  Batch batch;
  std::vector<std::int64_t> indices;         // [N] of the data set; the first `batch.count` are valid
  std::vector<std::int64_t> global_indices;  // those of batch.global_labels
  bool ready = false;                        // mutex_
  std::exception_ptr error;                  // mutex_
};

// One image as raw pixels, and room to change it. Only those of the set's pixel type have a size, and none where
// batches are raw.
struct Loader::Scratch {
  std::vector<std::uint8_t> bytes, spare_bytes;
  std::vector<float> floats, spare_floats;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, std::optional<Augmenter> augmenter,
               const LoaderOptions& options)
    : dataset_(std::move(dataset)), sampler_(std::move(sampler)), augmenter_(std::move(augmenter)), options_(options) {
  const std::int64_t size = dataset_->size();
  if (options_.batch < 1) fail_input("train.batch is {}; expected 1 or more", options_.batch);
  if (options_.training && size < options_.batch) {
    fail_input("{}: the set has {} samples, fewer than a batch of {}; set train.batch to {} or less",
               dataset_->origin(0), size, options_.batch, size);
  }
  if (options_.slice.empty()) options_.slice = {.begin = 0, .end = options_.batch};
  TRIFOLD_CHECK(options_.slice.begin >= 0 && options_.slice.end <= options_.batch, "slice {}..{} of a batch of {}",
                options_.slice.begin, options_.slice.end, options_.batch);
  TRIFOLD_CHECK(options_.training || !options_.global_labels, "an evaluation's last batch is incomplete");
  TRIFOLD_CHECK(options_.threads >= 1 && options_.depth >= 1, "{} threads, {} batches ahead", options_.threads,
                options_.depth);
  const bool bytes = dataset_->pixel_type() == PixelType::u8;
  TRIFOLD_CHECK(augmenter_ || bytes, "{}: no raw bytes to deliver", dataset_->origin(0));
  TRIFOLD_CHECK(!augmenter_ || augmenter_->shape() == dataset_->image_shape(), "an augmenter for {} on images of {}",
                to_string(augmenter_->shape()), to_string(dataset_->image_shape()));
  TRIFOLD_CHECK(sampler_.size() == size, "a sampler of {} for a set of {}", sampler_.size(), size);
  steps_per_epoch_ = options_.training ? size / options_.batch : (size + options_.batch - 1) / options_.batch;
  if (options_.start_epoch < 0 || options_.start_step < 0 || options_.start_step > steps_per_epoch_) {
    fail_input(
        "cannot start at epoch {}, step {}: an epoch has {} steps here; resume with the data set and the batch "
        "that the run began with",
        options_.start_epoch, options_.start_step, steps_per_epoch_);
  }

  const auto samples = static_cast<std::size_t>(options_.slice.size());
  const auto elements = static_cast<std::size_t>(dataset_->image_shape().elements());
  order_.resize(static_cast<std::size_t>(size));
  slots_.resize(static_cast<std::size_t>(options_.depth));
  for (Slot& slot : slots_) {
    slot.batch.images.resize(augmenter_ ? samples * elements : 0);
    slot.batch.raw.resize(augmenter_ ? 0 : samples * elements);
    slot.batch.labels.resize(samples);
    slot.batch.targets.resize(samples * static_cast<std::size_t>(dataset_->target_width()));
    slot.indices.resize(samples);
    if (!options_.global_labels) continue;
    slot.global_indices.resize(static_cast<std::size_t>(options_.batch));
    slot.batch.global_labels.resize(slot.global_indices.size());
  }
  scratch_.resize(static_cast<std::size_t>(options_.threads));
  for (Scratch& scratch : scratch_) {
    scratch.bytes.resize(augmenter_ && bytes ? elements : 0);
    scratch.spare_bytes.resize(scratch.bytes.size());
    scratch.floats.resize(bytes ? 0 : elements);
    scratch.spare_floats.resize(scratch.floats.size());
  }
  threads_.reserve(scratch_.size());
  try {
    for (Scratch& scratch : scratch_) threads_.emplace_back([this, &scratch] { run(scratch); });
  } catch (...) {
    stop();  // the destructor will not run, and a joinable thread must not be destroyed
    throw;
  }
}

Loader::~Loader() {
  stop();
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  slot_free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

const Batch& Loader::next() {
  TRIFOLD_CHECK(!holding_, "next() before release()");
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(released_ % options_.depth)];
  if (!slot.ready) {
    batch_ready_.wait(lock, [&] { return slot.ready; });
    waited_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  if (slot.error) std::rethrow_exception(slot.error);
  holding_ = true;
  return slot.batch;
}

void Loader::release() {
  TRIFOLD_CHECK(holding_, "release() without next()");
  holding_ = false;
  {
    const std::lock_guard lock(mutex_);
    slots_[static_cast<std::size_t>(released_ % options_.depth)].ready = false;
    ++released_;
  }
  slot_free_.notify_one();
}

void Loader::run(Scratch& scratch) {
  std::int64_t ticket = 0;
  while (claim(&ticket)) {
    Slot& slot = slots_[static_cast<std::size_t>(ticket % options_.depth)];
    std::exception_ptr error;
    try {
      fill(slot, scratch);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      slot.error = error;
      slot.ready = true;
    }
    batch_ready_.notify_one();
  }
}

// Takes the next ticket once its slot is free; false when the loader stops. Only the holder of claim_mutex_ waits for a
// slot, so that a long shuffle at an epoch's start holds up the other thread's claim but never next().
bool Loader::claim(std::int64_t* ticket) {
  const std::lock_guard claiming(claim_mutex_);
  {
    std::unique_lock lock(mutex_);
    slot_free_.wait(lock, [&] { return stopping_ || claimed_ < released_ + options_.depth; });
    if (stopping_) return false;
    *ticket = claimed_++;
  }
  describe(*ticket, slots_[static_cast<std::size_t>(*ticket % options_.depth)]);
  return true;
}

// Which samples the batch of `ticket` holds.
void Loader::describe(std::int64_t ticket, Slot& slot) {
  const std::int64_t global_step = options_.start_epoch * steps_per_epoch_ + options_.start_step + ticket;
  Batch& batch = slot.batch;
  batch.epoch = global_step / steps_per_epoch_;
  batch.step = global_step % steps_per_epoch_;
  batch.first_sample = global_step * options_.batch + options_.slice.begin;
  const std::int64_t first_position = batch.step * options_.batch + options_.slice.begin;
  const std::int64_t left = sampler_.size() - first_position;
  batch.count = static_cast<int>(std::clamp<std::int64_t>(left, 0, options_.slice.size()));
  if (order_epoch_ != batch.epoch) {
    sampler_.fill_epoch(batch.epoch, order_);
    order_epoch_ = batch.epoch;
  }
  if (batch.count > 0) std::copy_n(order_.data() + first_position, batch.count, slot.indices.data());
  std::copy_n(order_.data() + batch.step * options_.batch, slot.global_indices.size(), slot.global_indices.data());
}

void Loader::fill(Slot& slot, Scratch& scratch) const {
  Batch& batch = slot.batch;
  const auto elements = static_cast<std::size_t>(dataset_->image_shape().elements());
  const auto target_width = static_cast<std::size_t>(dataset_->target_width());
  const auto count = static_cast<std::size_t>(batch.count);
  const std::span<float> targets(batch.targets);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t index = slot.indices[i];
    batch.labels[i] = dataset_->label(index);
    if (target_width > 0) dataset_->read_targets(index, targets.subspan(i * target_width, target_width));
    if (options_.read_images) fill_image(slot, static_cast<std::int64_t>(i), scratch);
  }
  for (std::size_t i = 0; i < slot.global_indices.size(); ++i)
    batch.global_labels[i] = dataset_->label(slot.global_indices[i]);
  const auto clear_from = [](auto& values, std::size_t begin) {
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(std::min(begin, values.size())), values.end(), 0);
  };
  clear_from(batch.images, count * elements);
  clear_from(batch.raw, count * elements);
  clear_from(batch.labels, count);
  clear_from(batch.targets, count * target_width);
}

void Loader::fill_image(Slot& slot, std::int64_t sample, Scratch& scratch) const {
  const auto elements = static_cast<std::size_t>(dataset_->image_shape().elements());
  const std::size_t begin = static_cast<std::size_t>(sample) * elements;
  Batch& batch = slot.batch;
  if (!augmenter_) return read_raw(slot, sample, std::span(batch.raw).subspan(begin, elements));
  const std::span<float> image = std::span(batch.images).subspan(begin, elements);
  if (dataset_->pixel_type() == PixelType::u8)
    prepare(slot, sample, scratch.bytes, scratch.spare_bytes, image);
  else
    prepare(slot, sample, scratch.floats, scratch.spare_floats, image);
}

// A source that draws has numbers of its own: what is drawn for the changes does not depend on it.
template <class Pixel>
void Loader::read_raw(const Slot& slot, std::int64_t sample, std::span<Pixel> out) const {
  RandomSequence random(options_.seed, Purpose::decode, 0,
                        static_cast<std::uint64_t>(slot.batch.first_sample + sample));
  dataset_->read_pixels(slot.indices[static_cast<std::size_t>(sample)], options_.training ? &random : nullptr, out);
}

template <class Pixel>
void Loader::prepare(const Slot& slot, std::int64_t sample, std::vector<Pixel>& raw, std::vector<Pixel>& spare,
                     std::span<float> out) const {
  read_raw(slot, sample, std::span<Pixel>(raw));
  RandomSequence random = augment_sequence(options_.seed, slot.batch.first_sample + sample);
  if (options_.training) augmenter_->augment(std::span<Pixel>(raw), std::span<Pixel>(spare), random);
  augmenter_->normalise(std::span<const Pixel>(raw), out);
}

}  // namespace trifold
