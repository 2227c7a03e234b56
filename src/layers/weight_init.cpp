#include "layers/weight_init.h"

namespace trifold {

Field init_field(const std::string& fallback) {
  return {.name = "init",
          .kind = FieldKind::choice,
          .fallback = fallback,
          .choices = {"he", "uniform", "pytorch"},
          .help =
              "he: normal weights of variance 2/fan_in, bias 0; uniform: weights within 1/sqrt(fan_in) of 0, bias 0; "
              "pytorch: the bias too"};
}

WeightInit weight_init(const std::string& name, std::int64_t fan_in, std::int64_t fan_out) {
  const Init uniform{.kind = Init::Kind::kaiming_uniform, .fan_in = fan_in, .fan_out = fan_out};
  if (name == "he")
    return {.weight = {.kind = Init::Kind::kaiming_normal, .fan_in = fan_in, .fan_out = fan_out}, .bias = {}};
  return {.weight = uniform, .bias = name == "pytorch" ? uniform : Init{}};
}

}  // namespace trifold
