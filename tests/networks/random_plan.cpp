#include <algorithm>
#include <numeric>

#include "networks/dice.h"
#include "networks/random_job.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/train/model.h"
#include "runtime/train/parallel_plan.h"

namespace trifold::test {
namespace {

class PlanDrawer {
 public:
  PlanDrawer(const Job& job, std::uint64_t seed) : job_(job), dice_(seed, 5) {}

  JobJson draw() {
    // Batch norm groups that span some replicas, but not all of them, are rare by chance: a mesh with one is
    // looked for first.
    int tries = has_small_groups() && dice_.chance(0.6) ? 50 : 0;
    do draw_mesh();
    while (!fits() || (!has_group_on_some_replicas() && tries-- > 0));
    // So are layers in blocks, of which clipping must count every part once.
    blocks_first_ = may_have_blocks() && dice_.chance(job_.train.optimizer.clip_norm > 0 ? 0.5 : 0.1);
    if (blocks_first_) {
      dp_ = pp_ = micro_batches_ = chunks_ = 1;
      tp_ = 4;
    }
    plan_ = {{"dp", dp_}, {"tp", tp_}, {"pp", pp_}, {"micro_batches", micro_batches_}};
    if (dp_ > 1) draw_replicas();
    if (pp_ > 1) draw_pipeline();
    if (tp_ > 1) draw_splits();
    if (can_be_served() && dice_.chance(0.2)) {
      plan_.erase("zero");
      plan_["sync"] = {{"type", "ps"}, {"workers", 1}};
    }
    return plan_;
  }

 private:
  bool has_layer(const char* type) const {
    return std::ranges::any_of(job_.model.layers, [&](const LayerSpec& layer) { return layer.type == type; });
  }
  // Whether an update depends on all gradients together: clipping by norm, or fp16's check for overflow.
  bool looks_at_all_gradients() const {
    ModelOptions options;
    options.precision = job_.train.precision;
    return job_.train.optimizer.clip_norm > 0 || uses_precision(job_.model, options, DType::f16);
  }

  // Four ranks as a square, of a linear layer whose sizes are even.
  bool may_have_blocks() const {
    const bool even = std::ranges::any_of(job_.model.layers, [](const LayerSpec& layer) {
      return layer.type == "linear" && layer.values.integer("out") % 2 == 0;
    });
    return even && job_.train.batch / job_.train.accumulate % 2 == 0 &&
           job_.train.optimizer.kind != OptimizerKind::lars;
  }

  // Servers get each tensor's gradient, and that is all they know.
  bool can_be_served() const { return job_.train.optimizer.kind != OptimizerKind::lars && !looks_at_all_gradients(); }

  void draw_mesh() {
    dp_ = dice_.pick<std::int64_t>({1, 1, 2, 2, 4, 4});
    tp_ = dice_.pick<std::int64_t>({1, 1, 2, 2, 3, 4});
    pp_ = dice_.pick<std::int64_t>({1, 1, 2, 2, 3});
    micro_batches_ = dice_.pick<std::int64_t>({1, 1, 2, 3, 4});
    chunks_ = pp_ > 1 && dice_.chance(0.25) ? 2 : 1;
  }

  bool fits() const {
    if (dp_ * tp_ * pp_ > 6) return false;
    const TrainConfig& train = job_.train;
    const std::int64_t parts = train.accumulate * micro_batches_;
    if (train.batch % (parts * dp_) != 0) return false;
    if (has_layer("batch_norm") && !can_take_group(train.bn_group, {train.batch / parts, dp_})) return false;
    if (has_layer("batch_norm") && train.bn_group > train.batch / parts) return false;
    if (std::ssize(job_.model.layers) < pp_ * chunks_) return false;
    if (chunks_ > 1 && (parts % pp_ != 0 || looks_at_all_gradients())) return false;
    if (train.optimizer.kind == OptimizerKind::lars && (tp_ > 1 || (pp_ > 1 && looks_at_all_gradients()))) return false;
    return true;
  }

  bool has_small_groups() const {
    const TrainConfig& train = job_.train;
    return has_layer("batch_norm") && train.bn_group > 1 && train.bn_group < train.batch / train.accumulate;
  }
  bool has_group_on_some_replicas() const {
    const std::int64_t micro_batch = job_.train.batch / (job_.train.accumulate * micro_batches_);
    return job_.train.bn_group > micro_batch / dp_ && job_.train.bn_group < micro_batch;
  }

  void draw_replicas() {
    if (job_.train.optimizer.kind != OptimizerKind::lars && dice_.chance(0.6)) plan_["zero"] = dice_.between(1, 3);
    if (dice_.chance(0.5)) plan_["bucket"] = dice_.pick<std::string>({"100B", "1kB", "10kB"});
  }

  void draw_pipeline() {
    std::vector<std::string> schedules;  // that compute the step of one model
    for (const PipelineSchedule& schedule : pipeline_schedules())
      if (schedule.has_chunks == (chunks_ > 1) && !schedule.updates_every_micro_batch)
        schedules.emplace_back(schedule.name);
    plan_["schedule"] = dice_.pick(schedules);
    if (chunks_ > 1) plan_["chunks"] = chunks_;
    if (dice_.chance(0.3))
      plan_["recompute"] = "all";
    else if (dice_.chance(0.3))
      plan_["recompute"] = std::vector<std::int64_t>{dice_.below(static_cast<std::size_t>(pp_))};
    if (dice_.chance(0.6)) return;  // stages as they are chosen
    const std::int64_t layers = std::ssize(job_.model.layers);
    std::vector<std::int64_t> cuts(static_cast<std::size_t>(layers - 1));
    std::iota(cuts.begin(), cuts.end(), 1);
    std::vector<std::int64_t> chosen;
    for (std::int64_t cut = 1; cut < pp_ * chunks_; ++cut) {
      const auto at = dice_.below(cuts.size());
      chosen.push_back(cuts[static_cast<std::size_t>(at)]);
      cuts.erase(cuts.begin() + at);
    }
    std::ranges::sort(chosen);
    if (dice_.chance(0.5)) {
      for (const std::int64_t cut : chosen)
        plan_["cut_after"].push_back(job_.model.layers[static_cast<std::size_t>(cut - 1)].id);
      return;
    }
    chosen.push_back(layers);
    for (std::size_t i = 0; i < chosen.size(); ++i) plan_["stages"].push_back(chosen[i] - (i > 0 ? chosen[i - 1] : 0));
  }

  // Rules for some layers, of what each can do.
  void draw_splits() {
    const ModelContext context{.batch = job_.train.batch / (job_.train.accumulate * micro_batches_ * dp_),
                               .global_batch = job_.train.batch,
                               .bn_group = 1,
                               .classes = job_.model.classes};
    const Graph graph = build_graph(job_.model, context, Mode::evaluate);
    const double share = blocks_first_ ? 0.9 : dice_.pick({0.0, 0.3, 0.9});
    const bool rows_first = dice_.chance(0.4);
    for (std::size_t i = 0; i < job_.model.layers.size(); ++i) {
      if (!dice_.chance(share)) continue;
      const LayerSpec& spec = job_.model.layers[i];
      const std::unique_ptr<Layer> layer = find_layer_type(spec.type)->make(spec.values);
      std::vector<Shape> in;
      for (const ValueId id : graph.layers[i].in) in.push_back(graph[id].shape);
      std::vector<std::string> ways = {"none", "auto"};
      for (const LayerSplit split : layer->splits(in, static_cast<int>(tp_))) ways.emplace_back(name_of(split));
      const bool rows = can_take_rows(*layer, in);
      if (rows) ways.emplace_back("rows");
      const bool blocks = std::ranges::find(ways, "blocks") != ways.end();
      const std::string by = blocks && blocks_first_ ? "blocks" : rows && rows_first ? "rows" : dice_.pick(ways);
      plan_["split"].push_back({{"match", spec.id}, {"by", by}});
    }
  }

  bool can_take_rows(const Layer& layer, const std::vector<Shape>& in) const {
    const auto enough = [&](const Shape& shape) { return shape.rank() == 4 && shape[2] >= tp_; };
    if (!std::ranges::all_of(in, enough)) return false;
    return layer.sums_over_rows() || (layer.row_window() && enough(layer.infer_shape(in)));
  }

  const Job& job_;
  Dice dice_;
  JobJson plan_;
  std::int64_t dp_ = 1;
  std::int64_t tp_ = 1;
  std::int64_t pp_ = 1;
  std::int64_t micro_batches_ = 1;
  std::int64_t chunks_ = 1;
  bool blocks_first_ = false;  // layers are divided into blocks wherever they can be
};

}  // namespace

JobJson random_plan(const Job& job, std::uint64_t seed) {
  return PlanDrawer(job, seed).draw();
}

}  // namespace trifold::test
