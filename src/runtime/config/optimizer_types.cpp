#include "runtime/config/optimizer_types.h"

#include <algorithm>

#include "core/error.h"
#include "runtime/config/field_forms.h"

namespace trifold {
namespace {

OptimizerField momentum(double fallback, const char* help) {
  return {number_field("momentum", fallback, 0, 1, help), &OptimizerArgs::momentum};
}

std::vector<OptimizerType> declare_types() {
  const OptimizerField nesterov = {switch_field("nesterov", "look ahead along the momentum"), &OptimizerArgs::nesterov};
  const OptimizerField weight_decay = {
      number_field("weight_decay", 0, 0, {}, "times the weights, added to the gradient (adamw: apart)"),
      &OptimizerArgs::weight_decay};
  const std::vector<OptimizerField> adam = {
      {number_field("beta1", 0.9, 0, 0.999999, "decay of the mean"), &OptimizerArgs::beta1},
      {number_field("beta2", 0.999, 0, 0.999999999, "decay of the mean square"), &OptimizerArgs::beta2},
      {number_field("eps", 1e-8, 0, {}, "added to the root of the mean square"), &OptimizerArgs::eps},
      weight_decay};
  return {
      {.kind = OptimizerKind::sgd,
       .name = "sgd",
       .noun = "an sgd optimizer",
       .fields = {momentum(0, "share of the last update in the next"), nesterov, weight_decay}},
      {.kind = OptimizerKind::adam,
       .name = "adam",
       .noun = "an adam optimizer",
       .learning_rate = 0.001,
       .fields = adam},
      {.kind = OptimizerKind::adamw,
       .name = "adamw",
       .noun = "an adamw optimizer",
       .learning_rate = 0.001,
       .fields = adam},
      {.kind = OptimizerKind::lars,
       .name = "lars",
       .noun = "a lars optimizer",
       .learning_rate = 0.1,
       .fields = {momentum(0.9,
                           "share of the last update in the next; the update contains the learning rate (sgd: the rate "
                           "comes after)"),
                  nesterov,
                  {number_field("trust", 0.001, 0, {},
                                "local rate of a parameter: lr * trust * |w| / (|g| + weight_decay * |w|)"),
                   &OptimizerArgs::trust},
                  weight_decay},
       .needs_parameter_norms = true},
      {.kind = OptimizerKind::adagrad,
       .name = "adagrad",
       .noun = "an adagrad optimizer",
       .fields = {{number_field("eps", 1e-10, 0, {}, "added to the root of the sum of squares"), &OptimizerArgs::eps},
                  {number_field("initial_accumulator", 0, 0, {}, "where the sum of squares starts"),
                   &OptimizerArgs::initial_accumulator},
                  weight_decay}}};
}

template <class Key>
const OptimizerType& find_type(const Key& key, Key OptimizerType::*member) {
  const auto found = std::ranges::find(optimizer_types(), key, member);
  TRIFOLD_CHECK(found != optimizer_types().end(), "no such optimizer is declared");
  return *found;
}

}  // namespace

const std::vector<OptimizerType>& optimizer_types() {
  static const std::vector<OptimizerType> types = declare_types();
  return types;
}

const OptimizerType& optimizer_type(OptimizerKind kind) {
  return find_type(kind, &OptimizerType::kind);
}

const OptimizerType& optimizer_type(std::string_view name) {
  return find_type(std::string(name), &OptimizerType::name);
}

Fields fields_of(const OptimizerType& type) {
  Fields fields = {number_field("lr", type.learning_rate, 0, {}, "learning rate")};
  for (const OptimizerField& field : type.fields) fields.push_back(field.field);
  fields.push_back(switch_field("decay_bias", "weight decay for biases and normalisation layers too"));
  return fields;
}

OptimizerArgs optimizer_args(const OptimizerType& type, const FieldValues& values) {
  OptimizerArgs args{.kind = type.kind};
  for (const OptimizerField& field : type.fields) {
    if (const auto* number = std::get_if<double OptimizerArgs::*>(&field.member))
      args.*(*number) = values.number(field.field.name);
    else
      args.*(std::get<bool OptimizerArgs::*>(field.member)) = values.boolean(field.field.name);
  }
  return args;
}

FieldValue value_of(const OptimizerField& field, const OptimizerArgs& args) {
  return std::visit([&](auto member) { return FieldValue(args.*member); }, field.member);
}

}  // namespace trifold
