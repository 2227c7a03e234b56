// Small arithmetic on parameters in a model file: "$mid", "$mid*4", "$width / 2 + 1", "$stride != 1 && !$plain".
#pragma once

#include <functional>
#include <string>

#include "runtime/config/json_source.h"

namespace trifold {

// The parameter of that name, or null.
using ParameterLookup = std::function<const JsonNode*(const std::string& name)>;

bool is_expression(const JsonNode& node);  // a text with a '$' in it

// The value of an expression, at the expression's place. "$name" alone gives the parameter as it is, of whatever kind;
// arithmetic gives an integer where the result is whole. `known` are the names to suggest.
JsonNode evaluate(const JsonNode& expression, const ParameterLookup& lookup, const std::vector<std::string>& known);

}  // namespace trifold
