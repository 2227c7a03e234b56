#include "runtime/train/evaluator.h"

#include <algorithm>

#include "runtime/core/error.h"
#include "runtime/core/parallel.h"

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

void fill_inputs(Executable& program, const Batch& batch, std::int64_t offset, std::int64_t count) {
  const Graph& graph = program.program().graph;
  const std::int64_t elements = graph[graph.images].shape.elements();
  const std::int64_t first = offset * (elements / count);
  if (program.reads_raw_images())
    copy_samples(batch.raw, first, elements, program.raw_images());
  else
    copy_samples(batch.images, first, elements, program.images());

  std::int32_t* labels = program.labels();
  for (std::int64_t i = 0; i < count; ++i)
    labels[i] = offset + i < batch.count ? batch.labels[static_cast<std::size_t>(offset + i)] : -1;
  if (graph.targets != kNoValue) {
    const std::int64_t width = graph[graph.targets].shape.elements() / count;
    TRIFOLD_CHECK(static_cast<std::int64_t>(batch.targets.size()) >= (offset + count) * width,
                  "the data has no targets");
    std::copy_n(batch.targets.data() + offset * width, count * width, program.targets());
  }
  program.submit_inputs();
}

Score evaluate(Executable& program, Loader& loader) {
  const Graph& graph = program.program().graph;
  const std::int64_t batch_size = graph[graph.images].shape[0];
  Score score;
  double loss_sum = 0;
  double correct = 0;
  for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const Batch& batch = loader.next();
    fill_inputs(program, batch, 0, batch_size);
    score.samples += batch.count;
    loader.release();
    program.run({});
    const Executable::Report report = program.report();
    loss_sum += report.loss * static_cast<double>(batch_size);  // the report is divided by the whole batch
    correct += report.correct;
  }
  if (score.samples > 0) {
    score.loss = loss_sum / static_cast<double>(score.samples);
    score.accuracy = correct / static_cast<double>(score.samples);
  }
  return score;
}

}  // namespace trifold
