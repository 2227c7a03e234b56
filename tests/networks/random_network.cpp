#include "networks/random_network.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "core/error.h"

namespace trifold::test {
namespace {

constexpr int kTries = 12;

struct Sizes {
  std::int64_t most_elements;  // of one sample
  std::vector<std::int64_t> input_channels;
  std::int64_t least_side;
  std::int64_t most_side;
  std::vector<std::int64_t> outputs;  // of a convolution or linear layer
  std::int64_t most_parts;
};

Sizes sizes_of(NetworkSize size) {
  if (size == NetworkSize::large)
    return {.most_elements = 60000,
            .input_channels = {1, 3, 3, 4, 16, 32},
            .least_side = 12,
            .most_side = 40,
            .outputs = {8, 16, 24, 32, 48, 50, 64, 64, 96, 128},
            .most_parts = 8};
  return {.most_elements = 2500,
          .input_channels = {1, 2, 3, 3, 4, 8, 16},
          .least_side = 4,
          .most_side = 11,
          .outputs = {1, 2, 3, 5, 8, 8, 16, 16, 17, 24, 32},
          .most_parts = 5};
}

struct Tip {
  std::string id;
  Shape shape;  // of one sample and a batch of 1
};

class NetworkDrawer {
 public:
  NetworkDrawer(Dice& dice, NetworkSize size) : dice_(dice), sizes_(sizes_of(size)) {}

  RandomNetwork draw() {
    const Shape input{1, dice_.pick(sizes_.input_channels), side(), side()};
    classes_ = result_.outputs = dice_.pick({2, 3, 5, 10});
    tips_.push_back({"input", input});
    const std::int64_t parts = dice_.between(1, sizes_.most_parts);
    for (std::int64_t i = 0; i < parts; ++i) {
      if (dice_.chance(0.5))
        add_motif();
      else
        add_any_layer();
    }
    finish();
    result_.model = {
        {"input", {input[1], input[2], input[3]}}, {"classes", result_.regression ? 0 : classes_}, {"layers", layers_}};
    return std::move(result_);
  }

 private:
  std::int64_t side() {
    return dice_.chance(0.15) ? dice_.between(1, 3) : dice_.between(sizes_.least_side, sizes_.most_side);
  }
  const Tip& last() const { return tips_.back(); }
  static bool is_image(const Tip& tip) { return tip.shape.rank() == 4; }

  // --- one layer

  FieldValue drawn_number(const Field& field) {
    const double low = field.minimum.value_or(0);
    const double high = field.maximum.value_or(1);
    // Neither end: a probability of 1 or a slope of 0 is refused, an eps of 0 divides by nothing.
    return low + (high - low) * dice_.uniform(0.05, 0.9);
  }

  std::optional<FieldValue> drawn_value(const Field& field) {
    const bool required = !field.fallback && !field.optional;
    if (!required && dice_.chance(0.55)) return std::nullopt;
    const auto minimum = static_cast<std::int64_t>(field.minimum.value_or(0));
    switch (field.kind) {
      case FieldKind::boolean:
        return dice_.chance(0.5);
      case FieldKind::integer:
        if (required) return dice_.pick(sizes_.outputs);
        return dice_.chance(0.5) ? minimum + dice_.between(0, 3) : dice_.pick<std::int64_t>({2, 4, 8});
      case FieldKind::number:
        return drawn_number(field);
      case FieldKind::choice:
        return dice_.pick(field.choices);
      case FieldKind::pair: {
        const auto one = [&] {
          return required ? dice_.pick<std::int64_t>({1, 2, 3, 3, 5}) : minimum + dice_.between(0, 2);
        };
        const std::int64_t height = one();
        return Pair{height, dice_.chance(0.75) ? height : one()};
      }
      case FieldKind::numbers: {
        std::vector<double> numbers;
        for (std::int64_t i = 0; i < classes_; ++i) numbers.push_back(dice_.uniform(0.25, 2));
        return numbers;
      }
      case FieldKind::text:
      case FieldKind::texts:
        return std::nullopt;
    }
    return std::nullopt;
  }

  static JobJson to_json(const FieldValue& value) {
    return std::visit([](const auto& given) { return JobJson(given); }, value);
  }

  using Given = std::vector<std::pair<std::string, FieldValue>>;

  // Adds the layer if its shapes fit; what is not given is drawn.
  bool add(const std::string& type_name, const std::vector<std::size_t>& inputs, const Given& given = {}) {
    const LayerType* type = find_layer_type(type_name);
    TRIFOLD_CHECK(type != nullptr, "no layer type '{}'", type_name);
    JobJson json = {{"id", type_name + "_" + std::to_string(number_)}, {"type", type_name}};
    std::vector<Shape> shapes;
    for (const std::size_t input : inputs) {
      json["in"].push_back(tips_[input].id);
      shapes.push_back(tips_[input].shape);
    }
    if (inputs.size() == 1) json["in"] = tips_[inputs[0]].id;
    FieldValues values = defaults_of(type->fields);
    for (const Field& field : type->fields) {
      const auto named = std::ranges::find(given, field.name, &Given::value_type::first);
      const std::optional<FieldValue> value = named != given.end() ? named->second : drawn_value(field);
      if (!value) continue;
      values.set(field.name, *value);
      json[field.name] = to_json(*value);
    }
    try {
      const std::unique_ptr<Layer> layer = type->make(values);
      const Shape shape = layer->infer_shape(shapes);
      const bool joins = type_name == "concat" || type_name == "flatten";  // what is there already
      if (shape.elements() > sizes_.most_elements * (joins ? 8 : 1) || shape.elements() < 1) return false;
      if (type_name == "batch_norm" && shapes[0].pixels() == 1) result_.smallest_bn_group = 2;
      layers_.push_back(json);
      ++number_;
      tips_.push_back({json["id"], shape});
      return true;
    } catch (const ShapeError&) {
      return false;
    } catch (const Error&) {
      return false;  // fields that do not go together
    }
  }

  bool add_after_last(const std::string& type, const Given& given = {}) { return add(type, {tips_.size() - 1}, given); }

  std::vector<std::size_t> drawn_inputs(const LayerType& type) {
    const auto any = [&] { return static_cast<std::size_t>(dice_.below(tips_.size())); };
    std::vector<std::size_t> inputs = {dice_.chance(0.75) ? tips_.size() - 1 : any()};
    const std::int64_t more = type.inputs == kAnyInputs ? dice_.between(1, 2) : type.inputs - 1;
    for (std::int64_t i = 0; i < more; ++i) {
      // Shapes that are the same are rare by chance: look for one first.
      std::vector<std::size_t> like;
      for (std::size_t tip = 0; tip < tips_.size(); ++tip)
        if (tips_[tip].shape == tips_[inputs[0]].shape) like.push_back(tip);
      inputs.push_back(dice_.chance(0.7) ? dice_.pick(like) : any());
    }
    return inputs;
  }

  // Every layer type there is, a new one too.
  void add_any_layer() {
    static const std::vector<const LayerType*> types = [] {
      std::vector<const LayerType*> found;
      for (const auto& [name, type] : layer_types()) {
        FieldValues values = defaults_of(type.fields);
        for (const Field& field : type.fields)
          if (!values.has(field.name) && !field.optional)
            values.set(field.name,
                       field.kind == FieldKind::pair ? FieldValue(Pair{1, 1}) : FieldValue(std::int64_t{1}));
        if (!type.make(values)->is_loss()) found.push_back(&type);
      }
      return found;
    }();
    for (int i = 0; i < kTries; ++i) {
      const LayerType& type = *dice_.pick(types);
      if (type.name == "flatten" && dice_.chance(0.8)) continue;  // what comes after it is seldom an image again
      if (type.name == "global_avg_pool" && dice_.chance(0.8)) continue;
      if (type.name == "log_softmax" && dice_.chance(0.8)) continue;
      if (add(type.name, drawn_inputs(type))) return;
    }
  }

  // --- several layers that passes join, in the order in which they stand in real networks

  void add_product() {
    if (!is_image(last())) {
      add_after_last("linear");
      return;
    }
    // Half of them as most networks have them, the rest as drawn.
    if (dice_.chance(0.5)) {
      const std::int64_t kernel = dice_.pick<std::int64_t>({1, 3, 3, 5});
      add_after_last("conv2d", {{"kernel", Pair{kernel, kernel}},
                                {"pad", Pair{kernel / 2, kernel / 2}},
                                {"stride", Pair{1, 1}},
                                {"dilation", Pair{1, 1}},
                                {"groups", std::int64_t{1}},
                                {"padding", std::string("pad")}});
      return;
    }
    for (int i = 0; i < kTries; ++i)
      if (add_after_last("conv2d")) return;
  }

  void add_activation() {
    add_after_last(dice_.chance(0.7) ? "relu" : dice_.pick<std::string>({"leaky_relu", "gelu", "sigmoid", "tanh"}));
  }

  // A convolution that keeps the shape of its input.
  bool add_same_shape_conv() {
    const std::int64_t kernel = dice_.pick<std::int64_t>({1, 3});
    return add_after_last("conv2d", {{"out", last().shape[1]},
                                     {"kernel", Pair{kernel, kernel}},
                                     {"pad", Pair{kernel / 2, kernel / 2}},
                                     {"stride", Pair{1, 1}},
                                     {"dilation", Pair{1, 1}},
                                     {"groups", dice_.chance(0.2) ? std::int64_t{0} : std::int64_t{1}},
                                     {"padding", std::string("pad")}});
  }

  void add_residual() {
    if (!is_image(last())) return;
    // Blocks of 16 channels, as vectors have them, half of the time.
    if (dice_.chance(0.5))
      add_after_last("conv2d", {{"out", dice_.pick<std::int64_t>({16, 16, 32})},
                                {"kernel", Pair{1, 1}},
                                {"pad", Pair{0, 0}},
                                {"stride", Pair{1, 1}},
                                {"groups", std::int64_t{1}},
                                {"padding", std::string("pad")}});
    else if (dice_.chance(0.6))
      add_product();
    if (!is_image(last())) return;
    const std::size_t shortcut = tips_.size() - 1;
    if (!add_same_shape_conv()) return;
    if (dice_.chance(0.8)) add_after_last("batch_norm");
    std::vector<std::size_t> inputs = {tips_.size() - 1, shortcut};
    if (dice_.chance(0.3)) std::swap(inputs[0], inputs[1]);
    add("add", inputs);
    if (dice_.chance(0.8)) add_after_last("relu");
  }

  // The last with something before it of the same shape: the images, too, which need no gradient.
  void add_sum() {
    for (std::size_t tip = 0; tip + 1 < tips_.size(); ++tip)
      if (tips_[tip].shape == last().shape && dice_.chance(0.5)) {
        add("add", {tips_.size() - 1, tip});
        return;
      }
  }

  // A window that most images have room for, with padding as often as without.
  void add_pool() {
    if (!is_image(last())) return;
    const std::int64_t kernel = dice_.pick<std::int64_t>({2, 2, 3});
    const std::int64_t pad = dice_.chance(0.5) ? 0 : kernel / 2;
    const std::string type = dice_.chance(0.6) ? "max_pool" : "avg_pool";
    add_after_last(type, {{"kernel", Pair{kernel, kernel}}, {"pad", Pair{pad, pad}}});
  }

  // Images that a convolution and relu kept the shape of, added to them, and a window's maxima or means.
  void add_sum_with_images() {
    const Shape& images = tips_[0].shape;
    if (!add("conv2d", {0},
             {{"out", images[1]},
              {"kernel", Pair{3, 3}},
              {"pad", Pair{1, 1}},
              {"stride", Pair{1, 1}},
              {"dilation", Pair{1, 1}},
              {"groups", std::int64_t{1}},
              {"padding", std::string("pad")}}))
      return;
    add_after_last("relu");
    add("add", {tips_.size() - 1, 0});
    add_pool();
  }

  void add_branches() {
    const std::size_t from = tips_.size() - 1;
    std::vector<std::size_t> ends;
    for (std::int64_t i = dice_.between(2, 3); i > 0; --i) {
      bool added = is_image(last()) ? add("conv2d", {from},
                                          {{"kernel", Pair{1, 1}},
                                           {"stride", Pair{1, 1}},
                                           {"pad", Pair{0, 0}},
                                           {"padding", std::string("pad")},
                                           {"groups", std::int64_t{1}}})
                                    : add("linear", {from});
      if (!added) continue;
      if (dice_.chance(0.6)) add_activation();
      ends.push_back(tips_.size() - 1);
    }
    if (dice_.chance(0.3)) ends.push_back(from);
    if (ends.size() >= 2) add("concat", ends);
  }

  void add_motif() {
    switch (dice_.below(7)) {
      case 5:
        return dice_.chance(0.5) ? add_sum_with_images() : add_residual();
      case 0:
        add_product();
        add_activation();
        return;
      case 1:
        add_product();
        add_after_last("batch_norm");
        if (dice_.chance(0.8)) add_activation();
        return;
      case 2:
        return add_residual();
      case 3:
        return add_branches();
      case 4:
        add_product();
        if (dice_.chance(0.5)) add_after_last(dice_.chance(0.5) ? "dropout" : "dropout2d");
        if (dice_.chance(0.7)) add_after_last("relu");
        if (dice_.chance(0.3)) add_sum();
        add_pool();
        return;
      default:
        if (dice_.chance(0.5)) add_after_last("flatten");
        add_after_last("dropout");
        add_product();
        return;
    }
  }

  bool is_read(const std::string& id) const {
    for (const JobJson& layer : layers_) {
      if (layer["in"] == id) return true;
      for (const JobJson& input : layer["in"])
        if (input == id) return true;
    }
    return false;
  }

  // Every layer must be read: ends that are not are joined with the last, or left out.
  void join_ends() {
    std::vector<std::size_t> ends;
    for (std::size_t tip = tips_.size() - 1; tip-- > 1;) {
      if (is_read(tips_[tip].id)) continue;
      if (dice_.chance(0.6) && ends.size() < 3) {
        ends.push_back(tip);
        continue;
      }
      layers_.erase(tip - 1);
      tips_.erase(tips_.begin() + static_cast<std::ptrdiff_t>(tip));
      for (std::size_t& end : ends) --end;
    }
    if (ends.empty()) return;
    ends.push_back(tips_.size() - 1);
    std::vector<std::size_t> rows;
    for (const std::size_t end : ends) {
      if (is_image(tips_[end])) TRIFOLD_CHECK(add(dice_.chance(0.5) ? "flatten" : "global_avg_pool", {end}), "rows");
      rows.push_back(is_image(tips_[end]) ? tips_.size() - 1 : end);
    }
    std::ranges::reverse(rows);
    TRIFOLD_CHECK(add("concat", rows), "rows can be joined");
  }

  // A convolution to as many channels as there are classes, and their means, or a window as large as the image: scores
  // without a linear layer.
  bool add_convolution_to_scores() {
    const bool whole_image = dice_.chance(0.5);
    const Shape& image = last().shape;
    if (!add_after_last("conv2d", {{"out", std::int64_t{classes_}},
                                   {"kernel", whole_image ? Pair{image[2], image[3]} : Pair{1, 1}},
                                   {"pad", Pair{0, 0}},
                                   {"stride", Pair{1, 1}},
                                   {"dilation", Pair{1, 1}},
                                   {"groups", std::int64_t{1}},
                                   {"padding", std::string("pad")}}))
      return false;
    if (dice_.chance(0.3)) add_after_last("relu");
    return add_after_last(whole_image && dice_.chance(0.8) ? "flatten" : "global_avg_pool");
  }

  void add_scores() {
    if (is_image(last()) && dice_.chance(0.25) && add_convolution_to_scores()) return;
    if (is_image(last())) {
      if (dice_.chance(0.15)) add_after_last("dropout");
      add_after_last(dice_.chance(0.6) ? "flatten" : "global_avg_pool");
    }
    if (dice_.chance(0.2)) add_after_last("dropout");
    add_after_last("linear", {{"out", std::int64_t{classes_}}});
    if (!dice_.chance(0.2)) return;
    // Scores that are more than a linear layer's output.
    const std::size_t scores = tips_.size() - 1;
    if (dice_.chance(0.4) && add("linear", {scores - 1}, {{"out", std::int64_t{classes_}}}))
      add("add", {scores, scores + 1});
    else
      add_after_last(dice_.pick<std::string>({"batch_norm", "dropout", "tanh", "relu", "leaky_relu", "flatten"}));
  }

  // What the network ends with: one row of scores per sample, and a loss.
  void finish() {
    join_ends();
    add_scores();
    if (dice_.chance(0.1)) {
      result_.regression = true;
      add_after_last("mse");
    } else if (dice_.chance(0.2)) {
      add_after_last("log_softmax");
    } else if (dice_.chance(0.5)) {
      add_after_last("softmax_cross_entropy");
    }
  }

  Dice& dice_;
  Sizes sizes_;
  std::int64_t classes_ = 0;
  int number_ = 0;  // of the next layer
  std::vector<Tip> tips_;
  JobJson layers_ = JobJson::array();
  RandomNetwork result_;
};

}  // namespace

RandomNetwork random_network(Dice& dice, NetworkSize size) {
  return NetworkDrawer(dice, size).draw();
}

}  // namespace trifold::test
