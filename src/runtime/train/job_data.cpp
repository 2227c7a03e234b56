#include "runtime/train/job_data.h"

#include "core/error.h"
#include "runtime/train/device_choice.h"

namespace trifold {
namespace {

std::unique_ptr<Loader> make_loader(const Job& job, std::shared_ptr<const Dataset> dataset, SampleOrder order,
                                    std::vector<Augmentation> augmentations, const LoaderOptions& options) {
  Sampler sampler(*dataset, order, job.train.seed);
  std::optional<Augmenter> augmenter;
  if (!program_prepares_images(job))
    augmenter.emplace(dataset->image_shape(), dataset->pixel_type(), job.data.normalize, std::move(augmentations));
  return std::make_unique<Loader>(std::move(dataset), std::move(sampler), std::move(augmenter), options);
}

}  // namespace

bool is_regression(const Job& job) {
  return !job.model.layers.empty() &&
         find_layer_type(job.model.layers.back().type)->make(job.model.layers.back().values)->needs_targets();
}

bool program_prepares_images(const Job& job) {
  if (job.data.augment_on != AugmentOn::automatic) return job.data.augment_on == AugmentOn::device;
  return chooses_gpus(job.plan.device) && why_only_on_host(job.data).empty();
}

std::shared_ptr<const Dataset> open_split(const Job& job, Split split) {
  std::shared_ptr<const Dataset> dataset = open_dataset(job.data.source, split);
  if (is_regression(job) && dataset->target_width() == 0)
    fail_input("{}: the model ends in mse, but the {} data has labels and no float targets", job.file.string(),
               name_of(split));
  if (!is_regression(job) && dataset->target_width() > 0)
    fail_input("{}: the {} data has float targets, but the model does not end in mse", job.file.string(),
               name_of(split));
  return dataset;
}

std::unique_ptr<Loader> make_training_loader(const Job& job, std::shared_ptr<const Dataset> dataset,
                                             std::int64_t start_epoch, std::int64_t start_step,
                                             const BatchShare& share) {
  LoaderOptions options;
  options.batch = job.train.batch;
  options.slice = share.slice;
  options.read_images = share.images;
  options.global_labels = share.global_labels;
  options.seed = job.train.seed;
  options.threads = job.data.threads;
  options.start_epoch = start_epoch;
  options.start_step = start_step;
  return make_loader(job, std::move(dataset), job.data.sampler, job.data.augment, options);
}

std::unique_ptr<Loader> make_evaluation_loader(const Job& job, std::shared_ptr<const Dataset> dataset,
                                               const BatchShare& share) {
  LoaderOptions options;
  options.slice = share.slice;
  options.read_images = share.images;
  options.batch = job.train.micro_batch() / job.plan.micro_batches;  // of all replicas
  options.training = false;
  options.threads = job.data.threads;
  return make_loader(job, std::move(dataset), SampleOrder::sequential, {}, options);
}

std::vector<float> loss_class_weights(const Job& job, const Dataset& training_set) {
  switch (job.data.class_weighting) {
    case ClassWeighting::none:
      return {};
    case ClassWeighting::listed:
      return {job.data.class_weights.begin(), job.data.class_weights.end()};
    case ClassWeighting::balanced:
      break;
  }
  const auto counts = class_counts(training_set, static_cast<int>(job.model.classes));
  return balanced_class_weights(counts);
}

}  // namespace trifold
