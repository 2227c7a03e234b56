// JSON text as a tree in which every value knows its file, line, column and JSON pointer, so that whatever is wrong
// with it can be said with its place. `//` comments are allowed; a key that occurs twice in one object is an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace trifold {

// Where a value comes from. Line 0: not from a file but from the command line, and `origin` is the option.
struct JsonPlace {
  std::shared_ptr<const std::string> origin;
  int line = 0;
  int column = 0;
};

struct JsonNode {
  enum class Kind { null, boolean, integer, number, text, array, object };

  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;  // of integers too
  std::string text;
  std::vector<JsonNode> items;  // of an array, or of an object in the order of the text

  std::string key;  // in an object: the name of this value
  JsonPlace place;
  JsonPlace key_place;
  std::string pointer;  // "/model/layers/3", in the file of `place`

  bool is_text() const { return kind == Kind::text; }
  bool is_object() const { return kind == Kind::object; }
  bool is_array() const { return kind == Kind::array; }
  const JsonNode* find(std::string_view name) const;  // a member of an object, or null
  JsonNode* find(std::string_view name);
};

// Parses one document. `origin` is what errors call it; `in_file` false marks text from the command line.
JsonNode parse_json(std::string_view text, const std::string& origin, bool in_file = true);
JsonNode read_json_file(const std::filesystem::path& path);

// Gives `node` and everything below it the pointer it has at its new place.
void set_pointer(JsonNode& node, const std::string& pointer);
std::string child_pointer(const std::string& parent, std::string_view key);

std::string where(const JsonNode& node);      // "job.json:12: /model/layers/3"
std::string where_key(const JsonNode& node);  // the same, with the line of its key
std::string found(const JsonNode& node);      // "text \"five\"", "the list [1, 2]": for "expected ..., found ..."

template <class... Args>
[[noreturn]] void fail_at(const JsonNode& node, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Fault::input, where(node) + ": " + fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trifold
