// The "data" section of a job: where the samples come from, how they are changed, in which order they come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/network.h"
#include "runtime/config/json_source.h"
#include "runtime/config/object_type.h"
#include "runtime/data/augment.h"
#include "runtime/data/division.h"
#include "runtime/data/sampler.h"
#include "runtime/data/source.h"

namespace trifold {

enum class ClassWeighting { none, balanced, listed };

// Where images are augmented and normalised: by the loader's threads on the host, or by the program on its device.
enum class AugmentOn { automatic, host, device };

struct DataConfig {
  DataSource source;
  Normalisation normalize;
  std::vector<Augmentation> augment;  // of training samples, in this order
  SampleOrder sampler = SampleOrder::shuffled;
  ClassWeighting class_weighting = ClassWeighting::none;
  std::vector<double> class_weights;  // [classes]; of ClassWeighting::listed only
  Division division;                  // of samples among the shards of parameter servers
  int threads = 1;                    // that load ahead
  AugmentOn augment_on = AugmentOn::automatic;

  bool operator==(const DataConfig&) const = default;
};

const NestedType& data_section();

// `model` gives shape and classes to check against.
DataConfig read_data(const JsonNode& section, const NetworkSpec& model);

// Why only the loader can augment and normalise these samples; empty: a program can.
std::string why_only_on_host(const DataConfig& data);

const char* name_of(SampleOrder order);
const char* name_of(AugmentOn where);

}  // namespace trifold
