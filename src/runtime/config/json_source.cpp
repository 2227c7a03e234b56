#include "runtime/config/json_source.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/config/json_syntax.h"

namespace trifold {
namespace {

constexpr std::size_t kMostDepth = 64;

// Tells `consumed` how much the parser has read, which is what places are made from.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* consumed) : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*consumed_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* consumed_;
};

// Receives nlohmann's events and builds the tree. An event comes right after its token was read, so the token ends at
// `consumed` (for a number: one character later, which had to be read to see its end).
class TreeBuilder final : public nlohmann::json::json_sax_t {
 public:
  TreeBuilder(std::string_view text, const std::string& origin, bool in_file)
      : text_(text), origin_(std::make_shared<const std::string>(origin)), in_file_(in_file) {}

  std::size_t consumed = 0;
  JsonNode root;

  bool null() override { return add(JsonNode{}, consumed - 4); }
  bool boolean(bool value) override {
    JsonNode node;
    node.kind = JsonNode::Kind::boolean;
    node.boolean = value;
    return add(std::move(node), consumed - (value ? 4 : 5));
  }
  bool number_integer(number_integer_t value) override {
    JsonNode node;
    node.kind = JsonNode::Kind::integer;
    node.integer = value;
    node.number = static_cast<double>(value);
    return add(std::move(node), number_start());
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return number_integer(static_cast<number_integer_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(number_float_t value, const string_t&) override {
    JsonNode node;
    node.kind = JsonNode::Kind::number;
    node.number = value;
    return add(std::move(node), number_start());
  }
  bool string(string_t& value) override {
    JsonNode node;
    node.kind = JsonNode::Kind::text;
    node.text = value;
    return add(std::move(node), string_start());
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonNode::Kind::object); }
  bool start_array(std::size_t) override { return open(JsonNode::Kind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    const JsonPlace here = place_at(string_start());
    auto& keys = keys_.back();
    const auto [first, added] = keys.emplace(value, here.line);
    if (!added) {
      JsonNode at;
      at.place = here;
      at.pointer = child_pointer(open_.back()->pointer, value);
      fail_at(at, "the key '{}' occurs twice in one object; the first is in line {}", value, first->second);
    }
    key_ = value;
    key_place_ = here;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::json::exception& error) override {
    const SyntaxError syntax = explain_syntax_error(text_, position, last_token, error.what());
    const JsonPlace here = place_at(syntax.offset);
    if (in_file_) fail_input("{}:{}:{}: not valid JSON: {}", *origin_, here.line, here.column, syntax.message);
    fail_input("{}: not valid JSON: {}", *origin_, syntax.message);
  }

 private:
  JsonPlace place_at(std::size_t offset) {
    offset = std::min(offset, text_.size());
    if (offset < line_offset_) {  // a token before the last one that was asked for: never far
      line_ = 1;
      line_offset_ = 0;
    }
    for (std::size_t next = text_.find('\n', line_offset_); next < offset; next = text_.find('\n', line_offset_)) {
      line_offset_ = next + 1;
      ++line_;
    }
    return {origin_, in_file_ ? line_ : 0, static_cast<int>(offset - line_offset_) + 1};
  }

  std::size_t number_start() const {
    const auto in_number = [&](std::size_t at) {
      return std::string_view("+-.0123456789eE").find(text_[at]) != std::string_view::npos;
    };
    std::size_t start = consumed;
    if (start > 0 && !in_number(start - 1)) --start;
    while (start > 0 && in_number(start - 1)) --start;
    return start;
  }

  // Back from the closing quote to the only other quote that no backslash escapes.
  std::size_t string_start() const {
    std::size_t start = consumed - 1;
    while (start > 0) {
      --start;
      if (text_[start] != '"') continue;
      std::size_t backslashes = 0;
      while (backslashes < start && text_[start - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) break;
    }
    return start;
  }

  JsonNode* place_node(JsonNode node, std::size_t offset) {
    node.place = place_at(offset);
    if (open_.empty()) {
      root = std::move(node);
      return &root;
    }
    JsonNode& parent = *open_.back();
    if (parent.is_object()) {
      node.pointer = child_pointer(parent.pointer, key_);
      node.key = key_;
      node.key_place = key_place_;
    } else {
      node.pointer = fmt::format("{}/{}", parent.pointer, parent.items.size());
      node.key_place = node.place;
    }
    parent.items.push_back(std::move(node));
    return &parent.items.back();
  }

  bool add(JsonNode node, std::size_t offset) {
    place_node(std::move(node), offset);
    return true;
  }
  // The parents' items do not grow while a child is open, so pointers into them hold.
  bool open(JsonNode::Kind kind) {
    JsonNode node;
    node.kind = kind;
    JsonNode* placed = place_node(std::move(node), consumed - 1);
    if (open_.size() >= kMostDepth) fail_at(*placed, "nested more than {} deep", kMostDepth);
    open_.push_back(placed);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::string_view text_;
  std::shared_ptr<const std::string> origin_;
  bool in_file_;
  std::vector<JsonNode*> open_;
  std::vector<std::unordered_map<std::string, int>> keys_;  // of each open object, with their lines
  std::string key_;
  JsonPlace key_place_;
  int line_ = 1;                 // the line that starts at
  std::size_t line_offset_ = 0;  // this offset
};

std::string where(const JsonPlace& place, const std::string& pointer) {
  std::string text = place.origin ? *place.origin : std::string("job");
  if (place.line > 0) text += fmt::format(":{}", place.line);
  if (!pointer.empty()) text += ": " + pointer;
  return text;
}

std::string short_text(const std::string& text) {
  constexpr std::size_t kMost = 40;
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a UTF-8 character
  return text.substr(0, end) + "...";
}

}  // namespace

const JsonNode* JsonNode::find(std::string_view name) const {
  if (!is_object()) return nullptr;
  const auto item = std::find_if(items.begin(), items.end(), [&](const JsonNode& node) { return node.key == name; });
  return item == items.end() ? nullptr : &*item;
}

JsonNode* JsonNode::find(std::string_view name) {
  return const_cast<JsonNode*>(static_cast<const JsonNode*>(this)->find(name));
}

JsonNode parse_json(std::string_view text, const std::string& origin, bool in_file) {
  TreeBuilder builder(text, origin, in_file);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &builder.consumed),
                            CountingIterator(text.data() + text.size(), &builder.consumed), &builder,
                            nlohmann::json::input_format_t::json, true, true);
  return std::move(builder.root);
}

JsonNode read_json_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) fail_input("{}: is a folder, not a JSON file", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_input("{}: cannot be opened; does the file exist?", path.string());
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) fail_input("{}: cannot be read", path.string());
  return parse_json(text, path.string());
}

std::string child_pointer(const std::string& parent, std::string_view key) {
  std::string pointer = parent + '/';
  for (const char letter : key) {
    if (letter == '~')
      pointer += "~0";
    else if (letter == '/')
      pointer += "~1";
    else
      pointer += letter;
  }
  return pointer;
}

void set_pointer(JsonNode& node, const std::string& pointer) {
  node.pointer = pointer;
  for (std::size_t i = 0; i < node.items.size(); ++i)
    set_pointer(node.items[i],
                node.is_object() ? child_pointer(pointer, node.items[i].key) : fmt::format("{}/{}", pointer, i));
}

std::string where(const JsonNode& node) {
  return where(node.place, node.pointer);
}
std::string where_key(const JsonNode& node) {
  return where(node.key_place, node.pointer);
}

std::string found(const JsonNode& node) {
  switch (node.kind) {
    case JsonNode::Kind::null:
      return "null";
    case JsonNode::Kind::boolean:
      return node.boolean ? "true" : "false";
    case JsonNode::Kind::integer:
      return fmt::format("{}", node.integer);
    case JsonNode::Kind::number:
      return fmt::format("{}", node.number);
    case JsonNode::Kind::text:
      return fmt::format("the text \"{}\"", short_text(node.text));
    case JsonNode::Kind::array:
      return fmt::format("a list of {}", node.items.size());
    case JsonNode::Kind::object:
      return "an object";
  }
  return "?";
}

}  // namespace trifold
