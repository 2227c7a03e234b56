// The commonest forms of declared fields, so that a declaration is one line.
#pragma once

#include <optional>

#include "core/fields.h"

namespace trifold {

inline Field number_field(const char* name, double fallback, double minimum, std::optional<double> maximum,
                          const char* help) {
  return {.name = name,
          .kind = FieldKind::number,
          .fallback = fallback,
          .minimum = minimum,
          .maximum = maximum,
          .help = help};
}

// Off unless the job says otherwise.
inline Field switch_field(const char* name, const char* help) {
  return {.name = name, .kind = FieldKind::boolean, .fallback = false, .help = help};
}

}  // namespace trifold
