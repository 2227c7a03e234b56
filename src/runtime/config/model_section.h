// The "model" section of a job, or a model file: input shape, classes and layers, into a NetworkSpec.
#pragma once

#include <span>
#include <string>

#include "core/fields.h"
#include "layers/network.h"
#include "runtime/config/json_source.h"

namespace trifold {

// The model object itself where `model` names a file: "net.json", or {"file": "net.json", "classes": 10} whose other
// members replace those of the file.
JsonNode load_model_file(const JsonNode& model);

// `model` is a model object. Layers are unfolded, validated and in running order; shapes are not looked at.
NetworkSpec read_model(const JsonNode& model);

// "input" and "classes", and the members that every layer may have; for the schema too.
const Field& input_field();
const Field& classes_field();
const Field& layer_precision_field();
std::span<const std::string> layer_keys();
std::string layer_noun(const std::string& type);  // "a conv2d layer"

}  // namespace trifold
