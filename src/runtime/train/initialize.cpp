#include "runtime/train/initialize.h"

#include <cmath>

#include "core/philox.h"

namespace trifold {
namespace {

// FNV-1a: the same stream for the same name on every machine.
std::uint32_t stream_of(const std::string& name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

std::vector<float> initial_values(const Parameter& parameter, const Shape& shape, std::uint64_t seed) {
  const Init& init = parameter.init;
  std::vector<float> values(static_cast<std::size_t>(shape.elements()), static_cast<float>(init.constant));
  if (init.kind == Init::Kind::constant) return values;

  const double fan_in = static_cast<double>(init.fan_in);
  const double fan_out = static_cast<double>(init.fan_out);
  RandomSequence random(seed, Purpose::init, stream_of(parameter.name));
  for (float& value : values) {
    switch (init.kind) {
      case Init::Kind::kaiming_normal:
        value = random.normal() * static_cast<float>(std::sqrt(2.0 / fan_in));
        break;
      case Init::Kind::kaiming_uniform: {
        const auto bound = static_cast<float>(std::sqrt(1.0 / fan_in));  // as torch.nn.Linear: gain 1/sqrt(3)
        value = random.uniform(-bound, bound);
        break;
      }
      case Init::Kind::xavier_uniform: {
        const auto bound = static_cast<float>(std::sqrt(6.0 / (fan_in + fan_out)));
        value = random.uniform(-bound, bound);
        break;
      }
      case Init::Kind::constant:
        break;
    }
  }
  return values;
}

}  // namespace trifold
