#include "runtime/config/expression.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/config/nearest_name.h"

namespace trifold {
namespace {

using Kind = JsonNode::Kind;

// Recursive descent, one function a level of precedence. Values are JsonNodes of kind boolean, integer, number or text.
class Evaluator {
 public:
  Evaluator(const JsonNode& node, const ParameterLookup& lookup, const std::vector<std::string>& known)
      : node_(node), text_(node.text), lookup_(lookup), known_(known) {}

  JsonNode run() {
    JsonNode value = either();
    skip_space();
    if (at_ != text_.size()) fail_here("an operator or the end");
    return value;
  }

 private:
  static constexpr int kMostDepth = 32;

  [[noreturn]] void fail_here(const char* expected) {
    fail_at(node_, "cannot read the expression \"{}\": expected {} at character {}", text_, expected, at_ + 1);
  }
  [[noreturn]] void fail_operands(const char* sign) {
    fail_at(
        node_, "in \"{}\", '{}' needs {}", text_, sign,
        sign[0] == '&' || sign[0] == '|' || sign[0] == '!' ? "true or false on its sides" : "numbers on both sides");
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view sign) {
    skip_space();
    if (text_.compare(at_, sign.size(), sign) != 0) return false;
    if (sign == "!" && text_.compare(at_, 2, "!=") == 0) return false;
    at_ += sign.size();
    return true;
  }

  JsonNode make_truth(bool value) const {
    JsonNode node;
    node.kind = Kind::boolean;
    node.boolean = value;
    return node;
  }
  // A whole number becomes an integer where it can be one exactly.
  JsonNode make_number(double value) {
    if (!std::isfinite(value)) fail_at(node_, "\"{}\" has no finite value", text_);
    JsonNode node;
    node.number = value;
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (std::abs(value) <= kExact && value == std::floor(value)) {
      node.kind = Kind::integer;
      node.integer = static_cast<std::int64_t>(value);
    } else {
      node.kind = Kind::number;
    }
    return node;
  }
  double number(const JsonNode& node, const char* sign) {
    if (node.kind != Kind::integer && node.kind != Kind::number) fail_operands(sign);
    return node.number;
  }
  bool truth(const JsonNode& node, const char* sign) {
    if (node.kind != Kind::boolean) fail_operands(sign);
    return node.boolean;
  }
  static bool equal(const JsonNode& a, const JsonNode& b) {
    const bool numbers =
        (a.kind == Kind::integer || a.kind == Kind::number) && (b.kind == Kind::integer || b.kind == Kind::number);
    if (numbers) return a.number == b.number;
    return a.kind == b.kind && a.boolean == b.boolean && a.text == b.text;
  }

  JsonNode either() {
    if (++depth_ > kMostDepth) fail_at(node_, "the expression is nested too deeply");
    JsonNode value = both();
    while (take("||")) {
      const JsonNode right = both();
      const bool left_true = truth(value, "||");
      value = make_truth(truth(right, "||") || left_true);
    }
    --depth_;
    return value;
  }
  JsonNode both() {
    JsonNode value = comparison();
    while (take("&&")) {
      const JsonNode right = comparison();
      const bool left_true = truth(value, "&&");
      value = make_truth(truth(right, "&&") && left_true);
    }
    return value;
  }
  JsonNode comparison() {
    JsonNode left = sum();
    if (take("==")) return make_truth(equal(left, sum()));
    if (take("!=")) return make_truth(!equal(left, sum()));
    if (take("<=")) return make_truth(number(left, "<=") <= number(sum(), "<="));
    if (take(">=")) return make_truth(number(left, ">=") >= number(sum(), ">="));
    if (take("<")) return make_truth(number(left, "<") < number(sum(), "<"));
    if (take(">")) return make_truth(number(left, ">") > number(sum(), ">"));
    return left;
  }
  JsonNode sum() {
    JsonNode value = product();
    while (true) {
      if (take("+"))
        value = make_number(number(value, "+") + number(product(), "+"));
      else if (take("-"))
        value = make_number(number(value, "-") - number(product(), "-"));
      else
        return value;
    }
  }
  JsonNode product() {
    JsonNode value = factor();
    while (true) {
      if (take("*")) {
        value = make_number(number(value, "*") * number(factor(), "*"));
      } else if (take("/")) {
        const double divisor = number(factor(), "/");
        if (divisor == 0) fail_at(node_, "\"{}\" divides by zero", text_);
        value = make_number(number(value, "/") / divisor);
      } else {
        return value;
      }
    }
  }
  JsonNode factor() {
    if (++depth_ > kMostDepth) fail_at(node_, "the expression is nested too deeply");
    JsonNode value = unary();
    --depth_;
    return value;
  }
  JsonNode unary() {
    if (take("-")) return make_number(-number(factor(), "-"));
    if (take("!")) return make_truth(!truth(factor(), "!"));
    if (take("(")) {
      JsonNode value = either();
      if (!take(")")) fail_here("')'");
      return value;
    }
    if (take("$")) return parameter();
    const char* begin = text_.data() + at_;
    double value = 0;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || end == begin) fail_here("a number, '$name' or '('");
    at_ += static_cast<std::size_t>(end - begin);
    return make_number(value);
  }
  JsonNode parameter() {
    std::string name;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      name += text_[at_++];
    if (name.empty()) fail_here("a parameter's name after '$'");
    const JsonNode* value = lookup_(name);
    if (value == nullptr)
      fail_at(node_, "unknown parameter '${}'{} (known: {})", name, did_you_mean(name, known_), comma_list(known_));
    return *value;
  }

  const JsonNode& node_;
  const std::string& text_;
  const ParameterLookup& lookup_;
  const std::vector<std::string>& known_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

void move_to(JsonNode& node, const JsonNode& place) {
  node.place = place.place;
  node.key_place = place.key_place;
  node.pointer = place.pointer;
  for (JsonNode& item : node.items) move_to(item, place);
}

}  // namespace

bool is_expression(const JsonNode& node) {
  return node.is_text() && node.text.find('$') != std::string::npos;
}

JsonNode evaluate(const JsonNode& expression, const ParameterLookup& lookup, const std::vector<std::string>& known) {
  JsonNode value = Evaluator(expression, lookup, known).run();
  value.key = expression.key;
  move_to(value, expression);
  return value;
}

}  // namespace trifold
