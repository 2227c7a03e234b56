// One model, trained by ranks that each have their part of the network: threads of this process, or of the processes of
// a world. A plan of one rank takes the same way, on the thread that calls. In a world every process calls the same.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/rank_groups.h"
#include "parallel/rank_team.h"
#include "parallel/world.h"
#include "runtime/config/job.h"
#include "runtime/executor/span_log.h"
#include "runtime/train/evaluation_details.h"
#include "runtime/train/job_data.h"
#include "runtime/train/model.h"
#include "runtime/train/parallel_plan.h"
#include "runtime/train/parameter_exchange.h"
#include "runtime/train/served_tensors.h"

namespace trifold {

// A model on a data set.
struct Score {
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // 0 to 1; 0 for regression
  std::int64_t samples = 0;
};

class StepExchange;
struct RankPrograms;  // runtime/compiler/verify.h

// Who has the optimiser.
enum class Updates {
  here,
  elsewhere,  // parameter servers: a step makes gradients, and that is all
};

class ParallelModel {
 public:
  // Compiles the programs of this process's ranks, checks that they fit, and takes the memory. Without a world all
  // ranks are here.
  explicit ParallelModel(const Job& job, const World* world = nullptr, Updates updates = Updates::here);
  ~ParallelModel();
  ParallelModel(const ParallelModel&) = delete;
  ParallelModel& operator=(const ParallelModel&) = delete;

  const ParallelPlan& plan() const { return plan_; }
  Device& device() const { return ranks_.front().chunks.front()->device(); }
  std::size_t memory_bytes() const;          // of all ranks here
  std::size_t memory_bytes(int rank) const;  // here and below, ranks are counted from the first one here

  int ranks_here() const { return static_cast<int>(ranks_.size()); }
  int first_rank() const { return ranks_.front().groups->rank(); }  // of them, in the mesh

  // What loaders must read of every batch.
  BatchShare batch_share() const { return {slice_, reads_images_, averages_by_weight_ && !plan_.sync.local()}; }

  // One update. `batch` is that share of the global batch; null: the one that was submitted.
  void start_step(const Batch* batch, const StepContext& context);
  // The next batch, while a device still works on this one. Only where takes_batch_early().
  void submit(const Batch& batch);
  bool takes_batch_early() const;
  Executable::Report finish_step();  // of the whole batch

  // One pass over what the loader gives; it must be at the start of an epoch. `details`, if given, hear of every
  // sample, in a world of those of all processes; not of a regression.
  Score evaluate(Loader& loader, EvaluationDetails* details = nullptr);

  // What the loss reads of a batch that an evaluation loader gave, [samples * classes]. Not of a world.
  std::vector<float> outputs(const Batch& batch);

  std::optional<Model::LossScale> loss_scale() const { return ranks_.front().chunks.front()->loss_scale(); }
  void initialize(std::uint64_t seed);
  // Whole tensors under the network's names, whatever rank holds which part. In a world process 0 gets them.
  Model::Snapshot snapshot(Model::Contents contents) const;
  void load(const SafetensorsFile& file, Model::Contents contents);

  // The same tensor by tensor, whole and in row-major order, numbered in the network's order; between steps. Not of a
  // world, nor of replicas that keep parts.
  std::vector<ServedTensor> served_tensors() const;
  void read(int tensor, std::span<float> values) const;
  void write(int tensor, std::span<const float> values);  // the next step begins with it, on whatever rank
  // What the last step left for others: of a trained tensor its gradient, else the tensor itself.
  void read_result(int tensor, std::span<float> values) const;
  std::vector<std::vector<float>> results() const;  // of all

  // From now on steps ask for tensors there before they read them, and hand out gradients as they are made. Only with
  // updates elsewhere. It must outlive the steps; null: no more.
  void exchange_with(ParameterExchange* exchange);

  // A rank's programs, one a chunk of its stage.
  const std::vector<std::unique_ptr<Model>>& chunks(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].chunks;
  }

  // What a rank spends outside its programs' nodes. Added up, as the nodes' seconds are, while steps are timed.
  struct RankSeconds {
    double input = 0;  // copying batches to where the programs read them
    double idle = 0;   // from the step's begin to the rank's, and from the rank's end to the step's
  };
  // `logs`: one a rank here, in which every time is noted too. They must outlive the timing.
  void time_steps(bool on, std::span<SpanLog> logs = {});
  const RankSeconds& seconds(int rank) const { return ranks_[static_cast<std::size_t>(rank)].seconds; }

  // Every rank here announces in its own what it does, while it does it. They must outlive this model. Its programs are
  // numbered by chunk, those for training first.
  void announce_work(std::span<RankActivity> activities);

 private:
  struct Rank {
    std::unique_ptr<RankGroups> groups;
    std::vector<std::unique_ptr<Model>> chunks;
    SlottedActions actions;
    std::vector<bool> accumulated;  // by chunk: gradients of this step
    std::int64_t submitted_sample = -1;
    double submitted_class_weight = 1;  // the mean, of the submitted batch
    std::vector<float> class_weights;   // [K]: of the loss, where this rank has it and it has weights
    RankSeconds seconds;
    SpanLog* log = nullptr;            // null: nobody wants to know
    RankActivity* activity = nullptr;  // likewise

    void works_on(std::size_t chunk, int micro_batch) const {
      if (log != nullptr) log->enter(chunk, micro_batch);
      if (activity != nullptr) activity->enter(chunk, micro_batch);
    }
    void was_idle(std::chrono::steady_clock::time_point since, std::chrono::steady_clock::time_point until) {
      seconds.idle += std::chrono::duration<double>(until - since).count();
      if (log != nullptr) log->add(Span::Kind::idle, -1, since, until);
    }
    void begins(Activity what) const {
      if (activity != nullptr) activity->begin(what);
    }
    std::chrono::steady_clock::time_point end = {};  // of its last step
  };

  std::vector<RankPrograms> programs_of_ranks() const;
  void connect_devices();
  void for_each_rank(const std::function<void(Rank&)>& work);
  void step(Rank& rank, const Batch* batch, StepContext context);
  void whole_step(Rank& rank, const Batch* batch, StepContext context);
  void pipelined_step(Rank& rank, const Batch& batch, StepContext context);
  void fill(Rank& rank, Executable& program, const Batch& batch, std::int64_t first, int slot);
  std::int64_t first_of(const Rank& rank, int micro_batch) const;  // sample of the batch
  // StepContext::mean_class_weight of this micro-batch: over the samples that are averaged over together with it.
  double mean_class_weight(const Rank& rank, const Batch& batch, int micro_batch) const;
  void add_details(const Rank& rank, const Batch& batch, EvaluationDetails& details) const;
  void join_details(std::span<const EvaluationDetails> of_ranks_here, EvaluationDetails& details) const;
  void take_share();
  void average_replicas(const StepContext& context) const;
  ServedTensors& served() const;
  // Of every rank of the mesh, in their order, from those of the ranks here: equally many each.
  template <class T>
  std::vector<T> of_all_ranks(std::vector<T> of_ranks_here) const {
    return world_ == nullptr ? of_ranks_here : world_->gather_all<T>(of_ranks_here);
  }

  Job job_;
  ParallelPlan plan_;
  const World* world_ = nullptr;  // null: all ranks are here
  std::int64_t micro_batch_ = 0;  // samples of one, on one replica
  Range slice_{};                 // of a batch, that this process reads; empty: all of it
  bool reads_images_ = true;
  bool averages_by_weight_ = false;  // the loss has class weights, and a rank here has the loss
  bool timing_ = false;
  mutable bool replicas_differ_ = false;  // since their models were averaged last
  bool updates_elsewhere_ = false;
  std::vector<Rank> ranks_;
  mutable std::unique_ptr<ServedTensors> served_;  // made when somebody asks
  std::unique_ptr<StepExchange> exchange_;         // null: steps are this model's alone
  std::unique_ptr<RankTeam> team_;
};

}  // namespace trifold
