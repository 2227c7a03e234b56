// evaluation.json: an evaluation's details with the pictures of its worst samples, for programs that draw them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "insight/metrics/tensorboard_event.h"
#include "runtime/data/dataset.h"
#include "runtime/train/evaluation_details.h"

namespace trifold {

// A sample as a person looks at it, before normalisation; empty where it is no gray or RGB image. Numbers that are no
// bytes are stretched from their smallest to their largest.
std::vector<std::byte> sample_png(const Dataset& dataset, std::int64_t index);

// {"classes": names, "confusion": [label][predicted], "worst": [{"index", "label", "predicted", "probability", "loss",
// "png": base64 or null}]}
std::string evaluation_json(const EvaluationDetails& details, const Dataset& dataset);

// Of the worst samples, those that were taken for another class: "misclassified/02: cat as dog", the worst first.
std::vector<NamedImage> misclassified_images(const EvaluationDetails& details, const Dataset& dataset);

}  // namespace trifold
