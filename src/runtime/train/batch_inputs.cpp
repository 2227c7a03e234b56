#include "runtime/train/batch_inputs.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace trifold {

namespace {

// The samples from `offset` on that `to` has room for.
template <class T>
void copy_samples(const std::vector<T>& from, std::int64_t offset, std::int64_t elements, T* to) {
  TRIFOLD_CHECK(static_cast<std::int64_t>(from.size()) >= offset + elements,
                "a batch of {} elements for a program that reads {} from {} on", from.size(), elements, offset);
  parallel_for(
      elements, [&](Range range) { std::copy_n(from.data() + offset + range.begin, range.size(), to + range.begin); },
      1024);
}

}  // namespace

void fill_inputs(Executable& program, const Batch& batch, std::int64_t offset, std::int64_t count, int slot) {
  const Graph& graph = program.program().graph;
  if (graph.images != kNoValue) {
    const std::int64_t elements = graph[graph.images].shape.elements();
    const std::int64_t first = offset * (elements / count);
    if (program.reads_raw_images())
      copy_samples(batch.raw, first, elements, program.raw_images(slot));
    else
      copy_samples(batch.images, first, elements, program.images(slot));
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
