#include "runtime/compiler/add_update.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/gradient_exchange.h"
#include "parallel/data/gradient_exchange.h"
#include "runtime/compiler/program_nodes.h"

namespace trifold {
namespace {

// What the optimiser reads and writes, added when the size of the flat buffers is known.
class UpdateBuilder {
 public:
  UpdateBuilder(Program& program, const CompileOptions& options)
      : program_(program), options_(options), flat_(program.flat) {}

  void add() {
    add_accumulation();
    if (options_.updates_elsewhere) {
      TRIFOLD_CHECK(flat_.replication.zero == 0 && !options_.sync.local(), "replicas have no update to divide");
      add_exchange();
      return;
    }
    reserve(Region::optimizer, flat_.bytes_of(Region::optimizer) * state_names().size());
    // A stage without parameters has nothing to divide. It still has an update: fp16's loss scale moves with it.
    if (flat_.replication.zero == 0 || flat_.buckets.empty())
      add_all_at_once();
    else
      add_by_buckets();
  }

 private:
  MemoryPlan& memory() { return program_.memory; }
  std::vector<std::string> state_names() const { return optimizer_state_names(*options_.optimizer); }
  // Where the gradients are when the update begins.
  Region summed() const { return options_.accumulate ? Region::accumulated : Region::gradients; }

  void reserve(Region region, std::size_t bytes) { memory().region_bytes[static_cast<int>(region)] = bytes; }

  void add_op(OpPtr op, std::vector<ValueId> in, std::vector<ValueId> out) {
    add_update_node(program_, {std::move(op), std::move(in), std::move(out), Phase::update, -1}, options_);
  }

  ValueId flat_value(const std::string& name, Role role, const Place& place) {
    const Shape shape{static_cast<std::int64_t>(place.bytes / sizeof(float))};
    return add_placed_value(program_, {name, shape, DType::f32, role}, place);
  }
  ValueId all_of(const std::string& name, Role role, Region region) {
    return flat_value(name, role, {region, 0, flat_.bytes_of(region)});
  }

  void add_accumulation() {
    if (!options_.accumulate) return;
    reserve(Region::accumulated, flat_.bytes_of(Region::accumulated));
    const ValueId gradients = all_of("gradients", Role::parameter_gradient, Region::gradients);
    const ValueId sum = all_of("accumulated", Role::parameter_gradient, Region::accumulated);
    for (const bool first : {true, false}) {
      AccumulateGradients op;
      op.first = first;
      add_op(std::make_shared<const AccumulateGradients>(op), {sum, gradients}, {sum});
    }
  }

  // Among replicas; returns what they agree on.
  ValueId add_exchange() {
    const ValueId gradients = all_of("gradients", Role::parameter_gradient, summed());
    if (flat_.replication.aside)
      add_op(std::make_shared<const JoinSums>(), {gradients}, {gradients});
    else if (flat_.replication.replicas > 1 && !options_.sync.local())
      add_op(exchange(), {gradients}, {gradients});
    return gradients;
  }

  void add_all_at_once() {
    const ValueId gradients = add_exchange();
    add_squares();
    const ValueId parameters = all_of("parameters", Role::parameter, Region::parameters);
    add_optimizer(parameters, gradients, {Region::parameters, 0, flat_.bytes}, 0);
    if (flat_.replication.replicas > 1 && options_.sync.local()) add_averages(parameters);
  }

  OpPtr exchange() const {
    std::vector<FlatTensor> tensors;
    for (std::size_t i = 0; i < program_.graph.parameters.size(); ++i) {
      const Parameter& parameter = program_.graph.parameters[i];
      if (program_.graph[parameter.value].role != Role::parameter) continue;
      tensors.push_back({static_cast<std::int64_t>(flat_.offsets[i] / sizeof(float)),
                         program_.descs[static_cast<std::size_t>(parameter.value)].shape,
                         static_cast<std::int64_t>(program_.descs[static_cast<std::size_t>(parameter.value)].bytes() /
                                                   sizeof(float))});
    }
    return make_gradient_exchange(options_.sync, {.replicas = flat_.replication.replicas,
                                                  .elements = static_cast<std::int64_t>(flat_.bytes / sizeof(float)),
                                                  .tensors = tensors});
  }

  // Models that went their own ways: parameters, the optimiser's state and the states of layers, which come first in
  // their region.
  void add_averages(ValueId parameters) {
    const auto average = [&](ValueId value) {
      AverageReplicas op;
      op.ranks = flat_.replication.replicas;
      add_op(std::make_shared<const AverageReplicas>(op), {value}, {value});
    };
    average(parameters);
    if (const std::size_t bytes = memory().bytes(Region::optimizer); bytes > 0)
      average(flat_value("optimizer", Role::state, {Region::optimizer, 0, bytes}));
    std::size_t end = 0;
    for (const Parameter& parameter : program_.graph.parameters) {
      const Place& place = memory().places[static_cast<std::size_t>(parameter.value)];
      if (place.region == Region::states) end = std::max(end, place.offset + place.bytes);
    }
    if (end > 0) average(flat_value("states", Role::state, {Region::states, 0, end}));
  }

  // Each replica updates its part of every bucket.
  void add_by_buckets() {
    std::vector<ValueId> gradients;
    for (const Bucket& bucket : flat_.buckets) {
      gradients.push_back(flat_value("gradients part", Role::parameter_gradient, flat_.part(bucket, summed())));
      if (!flat_.shards(Region::gradients))
        add_op(std::make_shared<const ReduceScatter>(),
               {whole("gradients", Role::parameter_gradient, summed(), bucket)}, {gradients.back()});
    }
    add_squares();
    for (std::size_t i = 0; i < flat_.buckets.size(); ++i) {
      const Bucket& bucket = flat_.buckets[i];
      const ValueId parameters = flat_value("parameters part", Role::parameter, flat_.part(bucket, Region::parameters));
      last_update_ = i + 1 == flat_.buckets.size();
      add_optimizer(parameters, gradients[i],
                    {Region::parameters, flat_.part_begin(bucket, flat_.replication.replica), flat_.part_bytes(bucket)},
                    flat_.part(bucket, Region::optimizer).offset);
      if (!flat_.shards(Region::parameters))
        add_op(std::make_shared<const AllGather>(), {parameters},
               {whole("parameters", Role::parameter, Region::parameters, bucket)});
    }
  }

  ValueId whole(const std::string& name, Role role, Region region, const Bucket& bucket) {
    return flat_value(name, role, {region, bucket.offset, bucket.bytes});
  }

  // What the update has to know of all gradients, where other ranks hold others of them.
  void add_squares() {
    OptimizerUpdate update;
    update.args = *options_.optimizer;
    update.scaling = options_.precision.scaling;
    std::vector<Axis> axes = options_.divides_parameters;
    if (flat_.replication.zero > 0) axes.push_back(Axis::data);
    if (!update.needs_squares() || axes.empty()) return;
    const bool by_buckets = flat_.replication.zero > 0;
    GradientSquares op;
    for (const Bucket& bucket : flat_.buckets) {
      // This rank's stretch of a whole buffer, and where the gradients' buffer has it.
      const Place stretch = by_buckets ? Place{Region::parameters, flat_.part_begin(bucket, flat_.replication.replica),
                                               flat_.part_bytes(bucket)}
                                       : Place{Region::parameters, bucket.offset, bucket.bytes};
      const std::size_t at = by_buckets ? flat_.part(bucket, summed()).offset : bucket.offset;
      for (ParameterSegment segment : segments_of(stretch, Copies::first)) {
        segment.begin += static_cast<std::int64_t>(at / sizeof(float));
        segment.end += static_cast<std::int64_t>(at / sizeof(float));
        op.segments.push_back(segment);
      }
    }
    std::size_t& states = memory().region_bytes[static_cast<int>(Region::states)];
    squares_ = flat_value("squares of gradients", Role::state, {Region::states, states, sizeof(float)});
    states += 64;
    add_op(std::make_shared<const GradientSquares>(op), {all_of("gradients", Role::parameter_gradient, summed())},
           {squares_});
    for (const Axis axis : axes) {
      AllReduce sum;
      sum.axis = axis;
      add_op(std::make_shared<const AllReduce>(sum), {squares_}, {squares_});
    }
  }

  // `run`: the stretch of a whole buffer that is updated.
  void add_optimizer(ValueId parameters, ValueId gradients, const Place& run, std::size_t state_offset) {
    OptimizerUpdate update;
    update.args = *options_.optimizer;
    update.scaling = options_.precision.scaling;
    update.segments = segments_of(run);
    std::vector<ValueId> in = {parameters, gradients};
    std::vector<ValueId> out = {parameters};
    for (const std::string& name : state_names()) {
      const ValueId state = flat_value("optimizer." + name, Role::state, {Region::optimizer, state_offset, run.bytes});
      state_offset += flat_.bytes_of(Region::optimizer);
      in.push_back(state);
      out.push_back(state);
    }
    if (program_.graph.loss_scale != kNoValue) {
      in.push_back(program_.graph.loss_scale);
      out.push_back(program_.graph.loss_scale);
    }
    if (squares_ != kNoValue) in.push_back(squares_);
    update.squares_given = squares_ != kNoValue;
    update.moves_scale = last_update_;
    std::size_t& reports = memory().region_bytes[static_cast<int>(Region::reports)];
    out.push_back(add_placed_value(program_, {"gradient norm", Shape{1}, DType::f64, Role::report},
                                   {Region::reports, reports, sizeof(double)}));
    reports += 64;
    add_op(std::make_shared<const OptimizerUpdate>(update), in, out);
  }

  // Several tensor ranks may have the same part of a parameter. Updates need all copies; a sum over ranks counts only
  // the first.
  enum class Copies { all, first };

  // Places are from the run's begin.
  std::vector<ParameterSegment> segments_of(const Place& run, Copies copies = Copies::all) const {
    std::vector<ParameterSegment> segments;
    for (std::size_t i = 0; i < program_.graph.parameters.size(); ++i) {
      const Parameter& parameter = program_.graph.parameters[i];
      if (program_.graph[parameter.value].role != Role::parameter || parameter.gradient == kNoValue) continue;
      if (copies == Copies::first && parameter.shard.copy > 0) continue;
      const std::size_t bytes = program_.descs[static_cast<std::size_t>(parameter.value)].bytes();
      const std::size_t begin = std::max(flat_.offsets[i], run.offset);
      const std::size_t end = std::min(flat_.offsets[i] + bytes, run.offset + run.bytes);
      if (begin >= end) continue;
      const auto element = [&](std::size_t at) { return static_cast<std::int64_t>((at - run.offset) / sizeof(float)); };
      segments.push_back({element(begin), element(end), parameter.decay || options_.decay_all});
    }
    return segments;
  }

  Program& program_;
  const CompileOptions& options_;
  const FlatLayout& flat_;
  ValueId squares_ = kNoValue;
  bool last_update_ = true;
};

}  // namespace

void add_update(Program& program, const CompileOptions& options) {
  UpdateBuilder(program, options).add();
}

std::vector<std::string> optimizer_state_names(const OptimizerArgs& args) {
  OptimizerUpdate update;
  update.args = args;
  switch (update.state_count()) {
    case 0:
      return {};
    case 1:
      return {args.kind == OptimizerKind::adagrad ? "accumulator" : "momentum"};
    default:
      return {"moment1", "moment2"};
  }
}

}  // namespace trifold
