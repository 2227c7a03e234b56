#include "runtime/config/expand_blocks.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "runtime/config/expression.h"
#include "runtime/config/layer_order.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/validate.h"

namespace trifold {
namespace {

constexpr std::size_t kMostLayers = 10'000;  // a job with more is a mistake in a repeat
constexpr std::int64_t kMostRepeats = 10'000;
constexpr std::size_t kMostValues = 200'000;  // so that a list handed from block to block cannot fill the memory
constexpr int kImages = -1;
constexpr int kByName = -2;

// What some `in` means: an item, the images, or a name to be looked up once all names are known.
struct Reference {
  int item = kByName;
  std::string name = {};
  std::size_t scope = 0;  // where the name is looked up
  JsonNode written = {};  // its place, for errors; no content
};

// A layer, or (is_layer false) a name that stands for what in[0] is.
struct Item {
  std::string id;
  bool is_layer = true;
  JsonNode entry;
  std::vector<Reference> in;
};

// The names and parameters that a list of entries can see.
struct Scope {
  std::string prefix = {};
  std::size_t parent = 0;
  std::optional<Reference> block_input = {};
  std::map<std::string, JsonNode> parameters = {};
  std::map<std::string, int> items = {};  // by id without the prefix
  std::map<std::string, int> counters = {};
};

JsonNode place_only(const JsonNode& node) {
  JsonNode place;
  place.place = node.place;
  place.key_place = node.key_place;
  place.pointer = node.pointer;
  return place;
}

std::size_t values_in(const JsonNode& node) {
  std::size_t count = 1;
  for (const JsonNode& item : node.items) count += values_in(item);
  return count;
}

const std::vector<std::string>& block_entry_keys() {
  static const std::vector<std::string> keys = {"block", "id", "in", "repeat", "first", "when"};
  return keys;
}

class BlockExpander {
 public:
  BlockExpander(const JsonNode& model, std::int64_t classes) : blocks_(model.find("blocks")) {
    scopes_.emplace_back();
    set_integer(scopes_[0], "classes", classes);
    if (blocks_ != nullptr) check_blocks();
    const JsonNode* layers = model.find("layers");
    if (layers == nullptr) fail_at(model, "a model needs 'layers': a list of layers");
    expand_list(*layers, 0, Reference{.item = kImages});
  }

  std::vector<ExpandedLayer> resolve() {
    std::vector<ExpandedLayer> layers;
    stands_for_.assign(items_.size(), kByName);
    for (const Item& item : items_) {
      if (!item.is_layer) continue;
      ExpandedLayer layer{.id = item.id, .entry = item.entry, .in = {}};
      for (const Reference& reference : item.in) {
        const int source = follow(reference);
        layer.in.push_back(source == kImages ? "input" : items_[static_cast<std::size_t>(source)].id);
      }
      layers.push_back(std::move(layer));
    }
    return layers;
  }

 private:
  static void set_integer(Scope& scope, const std::string& name, std::int64_t value) {
    JsonNode node;
    node.kind = JsonNode::Kind::integer;
    node.integer = value;
    node.number = static_cast<double>(value);
    scope.parameters[name] = node;
  }

  void check_blocks() const {
    static const std::vector<std::string> known = {"help", "params", "layers"};
    check_is_object(*blocks_, "'blocks'");
    for (const JsonNode& block : blocks_->items) {
      check_is_object(block, fmt::format("block '{}'", block.key));
      check_keys(block, known, fmt::format("block '{}'", block.key));
      const JsonNode* layers = block.find("layers");
      if (layers == nullptr) fail_at(block, "block '{}' needs 'layers': a list of layers", block.key);
      const JsonNode* params = block.find("params");
      if (params == nullptr) continue;
      check_is_object(*params, "'params'");
      for (const JsonNode& param : params->items) {
        const auto& taken = block_entry_keys();
        if (std::find(taken.begin(), taken.end(), param.key) != taken.end() || param.key == "index" ||
            param.key == "classes")
          fail_at(param, "a parameter cannot be called '{}', which has a meaning of its own", param.key);
        if (param.is_object()) fail_at(param, "a parameter is a number, a text, true or false, a list, or null");
      }
    }
  }

  // Values -------------------------------------------------------------------------------------------------------

  // Takes note of values that are kept; `place` is where the model says so.
  void count_values(const JsonNode& node, const JsonNode& place) const {
    values_ += values_in(node);
    if (values_ > kMostValues) fail_at(place, "the model unfolds to more than {} values", kMostValues);
  }

  JsonNode evaluated(const JsonNode& node, std::size_t scope) const {
    if (is_expression(node)) {
      const auto& parameters = scopes_[scope].parameters;
      std::vector<std::string> known;
      for (const auto& [name, value] : parameters) known.push_back(name);
      JsonNode value = evaluate(
          node,
          [&](const std::string& name) {
            const auto found_value = parameters.find(name);
            return found_value == parameters.end() ? nullptr : &found_value->second;
          },
          known);
      count_values(value, node);
      return value;
    }
    JsonNode result = node;
    for (JsonNode& item : result.items) item = evaluated(item, scope);
    return result;
  }

  bool present(const JsonNode& entry, std::size_t scope) const {
    const JsonNode* when = entry.find("when");
    if (when == nullptr) return true;
    const JsonNode value = evaluated(*when, scope);
    if (value.kind != JsonNode::Kind::boolean) fail_at(*when, "expected true or false, found {}", found(value));
    return value.boolean;
  }

  // Names --------------------------------------------------------------------------------------------------------

  std::string id_of(const JsonNode& entry, const std::string& base, std::size_t scope) {
    const int count = ++scopes_[scope].counters[base];
    const JsonNode* id = entry.find("id");
    if (id == nullptr) return fmt::format("{}_{}", base, count);
    if (!id->is_text()) fail_at(*id, "expected a text, found {}", found(*id));
    const bool plain = !id->text.empty() && std::all_of(id->text.begin(), id->text.end(), [](unsigned char letter) {
      return std::isalnum(letter) != 0 || letter == '_' || letter == '.' || letter == '-';
    });
    if (!plain) fail_at(*id, "an id is made of letters, digits, '_', '-' and '.', found \"{}\"", id->text);
    if (id->text == "input") fail_at(*id, "the id 'input' means the images; choose another");
    return id->text;
  }

  int add_item(Item item, const std::string& name, std::size_t scope) {
    if (items_.size() >= kMostLayers) fail_at(item.entry, "the model unfolds to more than {} layers", kMostLayers);
    const int index = static_cast<int>(items_.size());
    item.id = scopes_[scope].prefix + name;
    const auto [first, added] = by_full_id_.emplace(item.id, index);
    if (!added) {
      const JsonNode* id = item.entry.find("id");
      fail_at(id != nullptr ? *id : item.entry, "duplicate layer id '{}'; the first is at {}", item.id,
              where(items_[static_cast<std::size_t>(first->second)].entry));
    }
    scopes_[scope].items.emplace(name, index);
    items_.push_back(std::move(item));
    return index;
  }

  Reference reference(const JsonNode& name, std::size_t scope) const {
    if (!name.is_text()) fail_at(name, "expected the id of a layer, found {}", found(name));
    const Scope& here = scopes_[scope];
    if (!is_expression(name)) return {.name = name.text, .scope = scope, .written = place_only(name)};
    if (name.text == "$in") {
      if (!here.block_input) fail_at(name, "'$in' has a meaning only inside a block; the images are 'input'");
      return *here.block_input;
    }
    // A parameter that names a layer names one that the user of the block can see.
    const JsonNode value = evaluated(name, scope);
    if (!value.is_text()) fail_at(name, "expected the id of a layer, found {}", found(value));
    return {.name = value.text, .scope = here.parent, .written = place_only(name)};
  }

  std::vector<Reference> inputs_of(const JsonNode& entry, std::size_t scope, const Reference& before) const {
    const JsonNode* in = entry.find("in");
    if (in == nullptr) return {before};
    if (!in->is_array()) return {reference(*in, scope)};
    if (in->items.empty()) fail_at(*in, "expected the id of a layer or a list of ids, found an empty list");
    std::vector<Reference> references;
    for (const JsonNode& item : in->items) references.push_back(reference(item, scope));
    return references;
  }

  // What the reference means in the end: a layer or the images. Every name on the way is followed once.
  int follow(const Reference& start) {
    const Reference* at = &start;
    std::vector<std::size_t> names;
    while (names.size() <= items_.size()) {
      int item = at->item == kByName ? find_item(*at) : at->item;
      const auto index = static_cast<std::size_t>(item);
      if (item != kImages && !items_[index].is_layer) {
        names.push_back(index);
        at = &items_[index].in.front();
        item = stands_for_[index];
        if (item == kByName) continue;
      }
      for (const std::size_t name : names) stands_for_[name] = item;
      return item;
    }
    fail_at(start.written, "'{}' stands for itself: the layers left out by 'when' form a cycle", start.name);
  }

  int find_item(const Reference& wanted) const {
    const Scope& scope = scopes_[wanted.scope];
    if (const auto item = scope.items.find(wanted.name); item != scope.items.end()) return item->second;
    if (wanted.name == "input") return kImages;
    if (const auto item = by_full_id_.find(wanted.name); item != by_full_id_.end()) return item->second;
    std::vector<std::string> names = {"input"};
    for (const auto& [name, item] : scope.items) names.push_back(name);
    fail_at(wanted.written, "unknown layer '{}'{}", wanted.name, did_you_mean(wanted.name, names));
  }

  // Entries ------------------------------------------------------------------------------------------------------

  // Returns the last of the list. `before` is what its first entry reads unless it says otherwise.
  Reference expand_list(const JsonNode& list, std::size_t scope, Reference before) {
    if (!list.is_array() || list.items.empty()) fail_at(list, "expected a list of layers, found {}", found(list));
    for (const JsonNode& entry : list.items) {
      check_is_object(entry, "a layer");
      const int item =
          entry.find("block") != nullptr ? expand_block(entry, scope, before) : expand_layer(entry, scope, before);
      before = Reference{.item = item};
    }
    return before;
  }

  int expand_layer(const JsonNode& entry, std::size_t scope, const Reference& before) {
    const JsonNode* type = entry.find("type");
    if (type == nullptr) fail_at(entry, "a layer needs a 'type' (or a 'block')");
    if (!type->is_text()) fail_at(*type, "expected the name of a layer type, found {}", found(*type));

    Item item;
    item.is_layer = present(entry, scope);
    item.in = inputs_of(entry, scope, before);
    if (!item.is_layer && item.in.size() != 1)
      fail_at(entry, "a layer with 'when' reads one layer, which stands for it when it is left out; this reads {}",
              item.in.size());
    count_values(entry, entry);
    item.entry = entry;
    for (JsonNode& member : item.entry.items)
      if (item.is_layer && member.key != "in" && member.key != "id" && member.key != "type" && member.key != "when")
        member = evaluated(member, scope);
    const std::string id = id_of(entry, type->text, scope);
    return add_item(std::move(item), id, scope);
  }

  const JsonNode& find_block(const JsonNode& name) const {
    if (!name.is_text()) fail_at(name, "expected the name of a block, found {}", found(name));
    const JsonNode* block = blocks_ != nullptr ? blocks_->find(name.text) : nullptr;
    if (block != nullptr) return *block;
    std::vector<std::string> names;
    if (blocks_ != nullptr)
      for (const JsonNode& each : blocks_->items) names.push_back(each.key);
    fail_at(name, "unknown block '{}'{} (known: {})", name.text, did_you_mean(name.text, names),
            names.empty() ? "none; 'blocks' of the model declares them" : comma_list(names));
  }

  // Overrides `values` with the members of `object`, which must be parameters of the block.
  void set_parameters(std::map<std::string, JsonNode>& values, const JsonNode& object, const JsonNode& block,
                      std::size_t scope, bool is_entry) const {
    for (const JsonNode& member : object.items) {
      const auto& own = block_entry_keys();
      if (is_entry && std::find(own.begin(), own.end(), member.key) != own.end()) continue;
      if (values.find(member.key) == values.end()) {
        std::vector<std::string> known;
        for (const auto& [name, value] : values) known.push_back(name);
        throw Error(Fault::input, fmt::format("{}: block '{}' has no parameter '{}'{} (known: {})", where_key(member),
                                              block.key, member.key, did_you_mean(member.key, known),
                                              known.empty() ? "none" : comma_list(known)));
      }
      values[member.key] = evaluated(member, scope);
    }
  }

  std::int64_t repeats_of(const JsonNode& entry, std::size_t scope) const {
    const JsonNode* repeat = entry.find("repeat");
    if (repeat == nullptr) return 1;
    static const Field field{.name = "repeat", .minimum = 1, .maximum = static_cast<double>(kMostRepeats)};
    return std::get<std::int64_t>(read_field(evaluated(*repeat, scope), field));
  }

  int expand_block(const JsonNode& entry, std::size_t scope, const Reference& before) {
    const JsonNode& block = find_block(*entry.find("block"));
    const std::string id = id_of(entry, block.key, scope);
    std::vector<Reference> in = inputs_of(entry, scope, before);
    if (in.size() != 1) fail_at(*entry.find("in"), "a block reads one layer, found {}", in.size());

    count_values(entry, entry);
    Item alias{.id = {}, .is_layer = false, .entry = entry, .in = {}};
    if (!present(entry, scope)) {
      alias.in = std::move(in);
      return add_item(std::move(alias), id, scope);
    }
    if (std::find(open_blocks_.begin(), open_blocks_.end(), block.key) != open_blocks_.end())
      fail_at(entry, "block '{}' contains itself", block.key);
    open_blocks_.push_back(block.key);

    std::map<std::string, JsonNode> values;
    if (const JsonNode* params = block.find("params"))
      for (const JsonNode& param : params->items) values[param.key] = param;
    set_parameters(values, entry, block, scope, true);

    const std::int64_t repeats = repeats_of(entry, scope);
    Reference last = in.front();
    for (std::int64_t index = 0; index < repeats; ++index) {
      Scope inner;
      inner.parent = scope;
      inner.prefix = scopes_[scope].prefix + id + ".";
      if (entry.find("repeat") != nullptr) inner.prefix += fmt::format("{}.", index);
      inner.block_input = last;
      inner.parameters = values;
      if (const JsonNode* first = entry.find("first")) {
        check_is_object(*first, "'first'");
        if (index == 0) set_parameters(inner.parameters, *first, block, scope, false);
      }
      for (const auto& [name, value] : inner.parameters) {
        if (value.kind == JsonNode::Kind::null) fail_at(entry, "block '{}' needs its parameter '{}'", block.key, name);
        count_values(value, entry);
      }
      set_integer(inner, "index", index);
      inner.parameters["classes"] = scopes_[0].parameters.at("classes");
      scopes_.push_back(std::move(inner));
      last = expand_list(*block.find("layers"), scopes_.size() - 1, last);
    }
    open_blocks_.pop_back();
    alias.in = {last};
    return add_item(std::move(alias), id, scope);
  }

  const JsonNode* blocks_;
  std::vector<Scope> scopes_;
  std::vector<Item> items_;
  std::unordered_map<std::string, int> by_full_id_;
  std::vector<std::string> open_blocks_;
  std::vector<int> stands_for_;     // by item: what a name means, once it was followed
  mutable std::size_t values_ = 0;  // kept so far
};

}  // namespace

std::vector<ExpandedLayer> expand_blocks(const JsonNode& model, std::int64_t classes) {
  return in_running_order(BlockExpander(model, classes).resolve());
}

}  // namespace trifold
