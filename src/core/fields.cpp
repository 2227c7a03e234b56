#include "core/fields.h"

#include "core/error.h"

namespace trifold {

template <class T>
const T& FieldValues::get(std::string_view name) const {
  const auto found = values_.find(name);
  TRIFOLD_CHECK(found != values_.end(), "field '{}' has no value", name);
  const T* value = std::get_if<T>(&found->second);
  TRIFOLD_CHECK(value != nullptr, "field '{}' is of another kind", name);
  return *value;
}

bool FieldValues::boolean(std::string_view name) const {
  return get<bool>(name);
}
std::int64_t FieldValues::integer(std::string_view name) const {
  return get<std::int64_t>(name);
}
double FieldValues::number(std::string_view name) const {
  return get<double>(name);
}
const std::string& FieldValues::text(std::string_view name) const {
  return get<std::string>(name);
}
Pair FieldValues::pair(std::string_view name) const {
  return get<Pair>(name);
}
const std::vector<double>& FieldValues::numbers(std::string_view name) const {
  return get<std::vector<double>>(name);
}
const std::vector<std::string>& FieldValues::texts(std::string_view name) const {
  return get<std::vector<std::string>>(name);
}

FieldValues defaults_of(const Fields& fields) {
  FieldValues values;
  for (const Field& field : fields)
    if (field.fallback) values.set(field.name, *field.fallback);
  return values;
}

}  // namespace trifold
