// What a JSON object may hold, declared once: names, kinds, defaults, limits, help. Layers, optimisers, data sources
// and the job's sections declare their fields with these; the parser validates against them, models/schema.json is made
// of them, and `trifold help` prints them. No JSON here: src/runtime/config turns JSON into FieldValues.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trifold {

enum class FieldKind {
  boolean,
  integer,
  number,
  text,
  choice,   // one of Field::choices
  pair,     // 3 or [3, 5]: height and width
  numbers,  // [0.5, 1]
  texts,    // "a" or ["a", "b"]
};

using Pair = std::array<std::int64_t, 2>;
using FieldValue =
    std::variant<bool, std::int64_t, double, std::string, Pair, std::vector<double>, std::vector<std::string>>;

struct Field {
  std::string name;
  FieldKind kind = FieldKind::integer;
  std::optional<FieldValue> fallback = std::nullopt;  // no fallback and not optional: the field is required
  bool optional = false;                              // may be absent, and then has no value
  std::optional<double> minimum = std::nullopt;       // of each number in it
  std::optional<double> maximum = std::nullopt;
  std::vector<std::string> choices = {};
  std::string help = {};
};

using Fields = std::vector<Field>;

// The validated values of one object: every declared field is there unless it is optional and absent.
class FieldValues {
 public:
  void set(const std::string& name, FieldValue value) { values_[name] = std::move(value); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }

  bool boolean(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;  // choices too
  Pair pair(std::string_view name) const;
  const std::vector<double>& numbers(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;

  const std::map<std::string, FieldValue, std::less<>>& all() const { return values_; }
  bool operator==(const FieldValues&) const = default;

 private:
  template <class T>
  const T& get(std::string_view name) const;

  std::map<std::string, FieldValue, std::less<>> values_;
};

// The declared defaults alone: what an empty object means. Required fields are left out.
FieldValues defaults_of(const Fields& fields);

}  // namespace trifold
