// Batches ready before they are asked for: one or two threads fill a ring of them while the network computes. The
// stream of batches depends on seed and position alone, so a loader started at (epoch, step) continues exactly where
// another stopped. All buffers are made on construction (image_folder's decoders allocate by themselves).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/parallel.h"
#include "runtime/data/augment.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"

namespace trifold {

struct Batch {
  std::vector<float> images;                // [N, C, H, W] plain, augmented and normalised; or else
  std::vector<std::uint8_t> raw;            // the same as it was read, for a program that does this itself
  std::vector<std::int32_t> labels;         // [N]; zeros where the set has targets
  std::vector<float> targets;               // [N, target_width]
  std::vector<std::int32_t> global_labels;  // [global batch], with LoaderOptions::global_labels; else empty
  std::int64_t epoch = 0;
  std::int64_t step = 0;          // within the epoch
  std::int64_t first_sample = 0;  // position of the first sample in the whole stream, over all epochs and ranks
  int count = 0;                  // samples that are real; the rest, at the end of an evaluation, is zeros
};

struct LoaderOptions {
  std::int64_t batch = 0;      // the global batch
  Range slice{};               // the part of every global batch that this loader reads; empty: all of it
  bool training = true;        // augment, and leave out the incomplete batch at the end of an epoch
  bool read_images = true;     // false: labels and targets only, for the rank that computes the loss; images stay zero
  bool global_labels = false;  // also deliver the labels of the samples outside the slice; training only
  std::uint64_t seed = 0;      // of the augmentation
  int threads = 1;
  int depth = 3;  // batches in the ring
  std::int64_t start_epoch = 0;
  std::int64_t start_step = 0;
};

class Loader {
 public:
  // Without an augmenter batches hold raw bytes; only where the set's pixels are bytes.
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, std::optional<Augmenter> augmenter,
         const LoaderOptions& options);
  ~Loader();  // stops the threads, whatever they are doing
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  Loader(Loader&&) = delete;
  Loader& operator=(Loader&&) = delete;

  // Training: whole batches only. Evaluation: the last may be incomplete.
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // The next batch, waiting for it if need be; it stays valid until release(). An error while reading is thrown here,
  // at the batch it belongs to, and again at every call after. One thread consumes.
  const Batch& next();
  void release();

  double waited_ms() const { return waited_ms_; }  // spent waiting in next(), since construction

 private:
  struct Slot;
  struct Scratch;

  void run(Scratch& scratch);
  bool claim(std::int64_t* ticket);
  void describe(std::int64_t ticket, Slot& slot);
  void fill(Slot& slot, Scratch& scratch) const;
  void fill_image(Slot& slot, std::int64_t sample, Scratch& scratch) const;
  template <class Pixel>
  void read_raw(const Slot& slot, std::int64_t sample, std::span<Pixel> out) const;
  template <class Pixel>
  void prepare(const Slot& slot, std::int64_t sample, std::vector<Pixel>& raw, std::vector<Pixel>& spare,
               std::span<float> out) const;
  void stop();

  std::shared_ptr<const Dataset> dataset_;
  Sampler sampler_;
  std::optional<Augmenter> augmenter_;
  LoaderOptions options_;
  std::int64_t steps_per_epoch_ = 0;
  double waited_ms_ = 0;
  bool holding_ = false;  // between next() and release()

  // Threads take tickets 0, 1, 2, ... one by one; ticket t is batch t of the stream and lives in slot t mod depth.
  // claim_mutex_ is held while a ticket is taken and its samples are looked up, and is locked before mutex_.
  std::mutex claim_mutex_;
  std::int64_t order_epoch_ = -1;    // of order_; claim_mutex_
  std::vector<std::int64_t> order_;  // the samples of an epoch; claim_mutex_
  std::mutex mutex_;
  std::condition_variable slot_free_;
  std::condition_variable batch_ready_;
  std::int64_t claimed_ = 0;   // tickets taken; mutex_
  std::int64_t released_ = 0;  // batches given back; mutex_
  bool stopping_ = false;      // mutex_
  std::vector<Slot> slots_;
  std::vector<Scratch> scratch_;  // one a thread
  std::vector<std::thread> threads_;
};

}  // namespace trifold
