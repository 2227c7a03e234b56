#include "runtime/train/evaluator.h"

#include <algorithm>

#include "runtime/core/error.h"
#include "runtime/core/parallel.h"

namespace trifold {

void fill_inputs(Executable& program, const Batch& batch, std::int64_t offset, std::int64_t count, int slot) {
  const Graph& graph = program.program().graph;
  if (graph.images != kNoValue) {
    const std::int64_t image_elements = graph[graph.images].shape.elements() / count;
    const float* images = batch.images.data() + offset * image_elements;
    float* to = program.images(slot);
    parallel_for(
        count * image_elements,
        [&](Range range) { std::copy(images + range.begin, images + range.end, to + range.begin); }, 1024);
  }
  if (graph.labels != kNoValue) {
    std::int32_t* labels = program.labels(slot);
    for (std::int64_t i = 0; i < count; ++i)
      labels[i] = offset + i < batch.count ? batch.labels[static_cast<std::size_t>(offset + i)] : -1;
  }
  if (graph.targets != kNoValue) {
    const std::int64_t width = graph[graph.targets].shape.elements() / count;
    TRIFOLD_CHECK(static_cast<std::int64_t>(batch.targets.size()) >= (offset + count) * width,
                  "the data has no targets");
    std::copy_n(batch.targets.data() + offset * width, count * width, program.targets(slot));
  }
  program.submit_inputs(slot);
}

}  // namespace trifold
