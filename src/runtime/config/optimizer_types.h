// The optimisers that a job can name. Each is declared once: its name, its fields with their defaults and limits, the
// member of OptimizerArgs that each field is, and what it needs of the ranks. The parser, the schema, the resolved job
// and the checks of plans are derived from that.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/fields.h"
#include "kernels/ops/optimizer.h"

namespace trifold {

struct OptimizerField {
  Field field;
  std::variant<double OptimizerArgs::*, bool OptimizerArgs::*> member;
};

struct OptimizerType {
  OptimizerKind kind;
  std::string name;                    // in job files
  std::string noun;                    // in errors: "an sgd optimizer"
  double learning_rate = 0.01;         // the default of "lr"
  std::vector<OptimizerField> fields;  // beside "lr" and "decay_bias", which all have
  bool needs_parameter_norms = false;  // of whole parameters: no rank can update a part of one by itself
};

const std::vector<OptimizerType>& optimizer_types();
const OptimizerType& optimizer_type(OptimizerKind kind);
const OptimizerType& optimizer_type(std::string_view name);  // one of those that are declared

Fields fields_of(const OptimizerType& type);

// The arguments that validated fields stand for, and back.
OptimizerArgs optimizer_args(const OptimizerType& type, const FieldValues& values);
FieldValue value_of(const OptimizerField& field, const OptimizerArgs& args);

}  // namespace trifold
