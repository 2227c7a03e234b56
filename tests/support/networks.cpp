#include "support/networks.h"

#include "core/error.h"

namespace trifold::test {

NetworkSpec network(Shape input, std::int64_t classes, const std::vector<LayerEntry>& layers) {
  NetworkSpec spec;
  spec.input = input;
  spec.classes = classes;
  std::string previous = "input";
  for (const LayerEntry& entry : layers) {
    const LayerType* type = find_layer_type(entry.type);
    TRIFOLD_CHECK(type != nullptr, "no layer type '{}'", entry.type);
    LayerSpec layer{entry.id, entry.type, entry.in, defaults_of(type->fields), "test: " + entry.id};
    if (layer.in.empty()) layer.in = {previous};
    for (const auto& [name, value] : entry.fields) layer.values.set(name, value);
    spec.layers.push_back(layer);
    previous = entry.id;
  }
  return spec;
}

namespace {

using Fields = std::vector<std::pair<std::string, FieldValue>>;

Fields conv(std::int64_t out, std::int64_t kernel, std::int64_t stride = 1, std::int64_t pad = 0, bool bias = false) {
  return {{"out", out},
          {"kernel", Pair{kernel, kernel}},
          {"stride", Pair{stride, stride}},
          {"pad", Pair{pad, pad}},
          {"bias", bias}};
}

}  // namespace

NetworkSpec small_resnet() {
  return network({3, 10, 10}, 5,
                 {{"conv0", "conv2d", {}, conv(16, 3, 1, 1)},
                  {"bn0", "batch_norm"},
                  {"relu0", "relu"},
                  {"a.conv1", "conv2d", {}, conv(16, 3, 1, 1)},
                  {"a.bn1", "batch_norm"},
                  {"a.relu1", "relu"},
                  {"a.conv2", "conv2d", {}, conv(16, 3, 1, 1)},
                  {"a.bn2", "batch_norm"},
                  {"a.add", "add", {"a.bn2", "relu0"}},
                  {"a.relu2", "relu"},
                  {"b.conv1", "conv2d", {}, conv(32, 3, 2, 1)},
                  {"b.bn1", "batch_norm"},
                  {"b.relu1", "relu"},
                  {"b.conv2", "conv2d", {}, conv(32, 3, 1, 1)},
                  {"b.bn2", "batch_norm"},
                  {"b.project", "conv2d", {"a.relu2"}, conv(32, 1, 2)},
                  {"b.project_bn", "batch_norm"},
                  {"b.add", "add", {"b.bn2", "b.project_bn"}},
                  {"b.relu2", "relu"},
                  {"pool", "global_avg_pool"},
                  {"fc", "linear", {}, {{"out", std::int64_t{5}}}}});
}

NetworkSpec small_tutorial() {
  return network({1, 12, 12}, 10,
                 {{"conv1", "conv2d", {}, conv(16, 3, 1, 0, true)},
                  {"drop1", "dropout2d", {}, {{"p", 0.5}}},
                  {"relu1", "relu"},
                  {"conv2", "conv2d", {}, conv(32, 3, 1, 0, true)},
                  {"drop2", "dropout2d", {}, {{"p", 0.75}}},
                  {"relu2", "relu"},
                  {"pool", "max_pool", {}, {{"kernel", Pair{2, 2}}}},
                  {"flat", "flatten"},
                  {"fc1", "linear", {}, {{"out", std::int64_t{24}}}},
                  {"relu3", "relu"},
                  {"fc2", "linear", {}, {{"out", std::int64_t{10}}}},
                  {"log", "log_softmax"}});
}

NetworkSpec small_lenet() {
  return network({1, 16, 16}, 10,
                 {{"conv1", "conv2d", {}, conv(6, 5, 1, 2, true)},
                  {"tanh1", "tanh"},
                  {"pool1", "avg_pool", {}, {{"kernel", Pair{2, 2}}}},
                  {"conv2", "conv2d", {}, conv(16, 5, 1, 0, true)},
                  {"tanh2", "tanh"},
                  {"pool2", "avg_pool", {}, {{"kernel", Pair{2, 2}}}},
                  {"flat", "flatten"},
                  {"fc1", "linear", {}, {{"out", std::int64_t{24}}}},
                  {"tanh3", "tanh"},
                  {"fc2", "linear", {}, {{"out", std::int64_t{16}}}},
                  {"sigmoid", "sigmoid"},
                  {"fc3", "linear", {}, {{"out", std::int64_t{10}}}}});
}

NetworkSpec small_mobilenet() {
  const auto depthwise = [](std::int64_t channels, std::int64_t stride) {
    Fields fields = conv(channels, 3, stride, 1);
    fields.emplace_back("groups", channels);
    return fields;
  };
  return network({3, 12, 12}, 5,
                 {{"conv", "conv2d", {}, conv(8, 3, 2, 1)},
                  {"bn", "batch_norm"},
                  {"relu", "relu"},
                  {"dw1", "conv2d", {}, depthwise(8, 1)},
                  {"dw1_bn", "batch_norm"},
                  {"dw1_relu", "relu"},
                  {"pw1", "conv2d", {}, conv(16, 1)},
                  {"pw1_bn", "batch_norm"},
                  {"pw1_relu", "relu"},
                  {"dw2", "conv2d", {}, depthwise(16, 2)},
                  {"dw2_bn", "batch_norm"},
                  {"dw2_relu", "relu"},
                  {"pw2", "conv2d", {}, conv(24, 1)},
                  {"pw2_bn", "batch_norm"},
                  {"pw2_relu", "relu"},
                  {"pool", "global_avg_pool"},
                  {"fc", "linear", {}, {{"out", std::int64_t{5}}}}});
}

NetworkSpec small_vgg() {
  return network({3, 16, 16}, 7,
                 {{"conv1", "conv2d", {}, conv(16, 3, 1, 1, true)},
                  {"relu1", "relu"},
                  {"pool1", "max_pool", {}, {{"kernel", Pair{2, 2}}}},
                  {"conv2", "conv2d", {}, conv(32, 3, 1, 1, true)},
                  {"relu2", "relu"},
                  {"pool2", "max_pool", {}, {{"kernel", Pair{2, 2}}}},
                  {"flat", "flatten"},
                  {"fc1", "linear", {}, {{"out", std::int64_t{40}}}},
                  {"relu3", "relu"},
                  {"drop", "dropout", {}, {{"p", 0.5}}},
                  {"fc2", "linear", {}, {{"out", std::int64_t{7}}}}});
}

NetworkSpec dropped_features() {
  return network({1, 8, 8}, 3,
                 {{"conv1", "conv2d", {}, conv(16, 3, 1, 0, true)},
                  {"relu1", "relu"},
                  {"flat", "flatten"},
                  {"drop", "dropout", {}, {{"p", 0.25}}},
                  {"fc", "linear", {}, {{"out", std::int64_t{3}}}}});
}

NetworkSpec odd_network() {
  Fields depthwise = conv(16, 3, 1, 1, true);
  depthwise.push_back({"groups", std::int64_t{0}});
  return network({2, 9, 7}, 4,
                 {{"conv1", "conv2d", {}, conv(6, 3, 1, 1, true)},
                  {"gelu", "gelu"},
                  {"conv2", "conv2d", {}, conv(16, 3, 1, 1)},
                  {"bn2", "batch_norm"},
                  {"tanh", "tanh"},
                  {"depthwise", "conv2d", {}, depthwise},
                  {"leaky", "leaky_relu"},
                  {"join", "concat", {"leaky", "gelu"}},
                  {"conv3", "conv2d", {}, conv(10, 1)},
                  {"sigmoid", "sigmoid"},
                  {"pool", "avg_pool", {}, {{"kernel", Pair{2, 2}}}},
                  {"flat", "flatten"},
                  {"fc", "linear", {}, {{"out", std::int64_t{4}}}},
                  {"log", "log_softmax"}});
}

}  // namespace trifold::test
