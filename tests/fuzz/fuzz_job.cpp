// A job: parsing, its resolved form, and, for networks of sane size, the graph in both modes. The resolved text must
// load as an equal job.
#include <algorithm>
#include <string_view>

#include "layers/autodiff.h"
#include "only_errors.h"
#include "runtime/config/job.h"

namespace trifold {
namespace {

// Whether no shape can come near the limits of an integer: what the compiler refuses later by its bytes.
bool is_of_sane_size(const NetworkSpec& model) {
  constexpr std::int64_t kMostOfField = 4096;
  constexpr std::size_t kMostLayers = 256;
  constexpr std::size_t kMostFanOut = 65536;  // of concatenations, which multiply channels
  if (model.layers.size() > kMostLayers) return false;
  std::size_t fan_out = 1;
  for (const LayerSpec& layer : model.layers) {
    if (layer.type == "concat") fan_out *= layer.in.size();
    if (fan_out > kMostFanOut) return false;
    for (const auto& [name, value] : layer.values.all()) {
      if (const auto* whole = std::get_if<std::int64_t>(&value); whole != nullptr && *whole > kMostOfField)
        return false;
      if (const auto* pair = std::get_if<Pair>(&value);
          pair != nullptr && std::max((*pair)[0], (*pair)[1]) > kMostOfField)
        return false;
    }
  }
  return true;
}

void check_resolved(const Job& job) {
  const std::string text = to_json_text(job);
  try {
    if (parse_job(text, job.file) == job) return;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fprintf(stderr, "%s", text.c_str());
  fuzz::report_defect("the resolved job does not load as an equal job");
}

}  // namespace
}  // namespace trifold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  Job job;
  if (!fuzz::accepts([&] { job = parse_job({reinterpret_cast<const char*>(data), size}, "/nowhere/job.json"); }))
    return 0;
  check_resolved(job);
  if (!is_of_sane_size(job.model)) return 0;
  const ModelContext context{.batch = 4, .global_batch = 4, .bn_group = 2, .classes = job.model.classes};
  for (const Mode mode : {Mode::train, Mode::evaluate})
    fuzz::accepts([&] {
      ForwardGraph forward = build_forward_graph(job.model, context, mode);
      to_string(mode == Mode::train ? add_gradients(std::move(forward)) : forward.graph);
    });
  return 0;
}
