// The data of a job, opened: what the loaders of training and evaluation read.
#pragma once

#include <memory>

#include "core/device.h"
#include "runtime/config/job.h"
#include "runtime/data/loader.h"

namespace trifold {

// Whether the model ends in a loss of float targets: there are no classes then.
bool is_regression(const Job& job);

// Opens a split and checks it against the model: shape, classes, targets.
std::shared_ptr<const Dataset> open_split(const Job& job, Split split);

// Whether the job's programs on this device augment and normalise the images, so that its loaders deliver raw bytes.
bool program_prepares_images(const Job& job);

// What a process reads of every batch.
struct BatchShare {
  Range slice{};               // empty: all samples
  bool images = true;          // false: labels and targets only
  bool global_labels = false;  // of training batches: the labels of the samples outside the slice too
};

// The order, augmentation and normalisation that the job asks for; from (epoch, step) on.
std::unique_ptr<Loader> make_training_loader(const Job& job, std::shared_ptr<const Dataset> dataset,
                                             std::int64_t start_epoch, std::int64_t start_step,
                                             const BatchShare& share = {});
std::unique_ptr<Loader> make_evaluation_loader(const Job& job, std::shared_ptr<const Dataset> dataset,
                                               const BatchShare& share = {});

// Class weights of the loss as the job asks for them ("balanced" counts the training set); empty: none.
std::vector<float> loss_class_weights(const Job& job, const Dataset& training_set);

}  // namespace trifold
