// A model in memory: its parameters, and the two programs that train and evaluate it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/network.h"
#include "parallel/mesh.h"
#include "parallel/pipeline/stage_cut.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/executor/executable.h"
#include "runtime/train/flat_buffers.h"

namespace trifold {

struct ModelOptions {
  const Backend* backend = nullptr;
  Device* device = &host_device();
  std::int64_t batch = 1;       // global batch of one update
  std::int64_t accumulate = 1;  // micro-batches it is done in
  std::int64_t bn_group = 0;    // 0: a micro-batch
  int threads = 1;
  bool strict_math = false;
  bool fuse = true;
  Recompute recompute = Recompute::cheap;
  bool recomputes_stage = false;  // forward work is repeated for backward work
  bool graphs = true;             // steps of a GPU are recorded and replayed
  DType precision = DType::f32;
  LossScaling loss_scaling = {};  // where a layer is in f16
  OptimizerArgs optimizer;
  bool updates_elsewhere = false;  // by parameter servers: this model has no optimiser
  bool decay_all = false;
  std::optional<PrepareImagesArgs> prepare = {};       // the programs read raw bytes and do this with them first
  Mesh mesh = {};                                      // the job's ranks
  MeshPlace place = {};                                // this one's
  GradientSync sync = {};                              // how replicas agree
  int zero = 0;                                        // what replicas keep only parts of: ZeRO's stage
  std::size_t bucket_bytes = 0;                        // of what replicas exchange as one piece; 0: chosen
  bool overlap_reduction = false;                      // of gradients, bucket by bucket while backward work goes on
  const RankGroups* ranks = nullptr;                   // null: programs that are only looked at, or a single rank's
  std::vector<std::optional<LayerSplit>> splits = {};  // of layers, among tensor ranks; none: chosen
  StageCut cut = {};                                   // of the network into parts; the default: one part
  int part = 0;                                        // this program's
  MicroBatches micro_batches = {};                     // that are under way at once
  bool updates_every_micro_batch = false;              // each by gradients of the weights it began with (PipeDream)
  PassObserver observer = nullptr;                     // sees what each pass makes of the training program

  // Replicas that are one model in every step.
  int joined_replicas() const { return sync.local() ? 1 : mesh.data; }
  std::int64_t micro_batch() const { return batch / accumulate / mesh.data; }  // this rank's part of it
};

// Whether the job or a layer of it asks for this type.
bool uses_precision(const NetworkSpec& network, const ModelOptions& options, DType type);

Program compile_training(const NetworkSpec& network, const ModelOptions& options);
// Shares the parameters of `training` in memory.
Program compile_evaluation(const NetworkSpec& network, const ModelOptions& options, const Program& training);

class Model {
 public:
  // From programs compiled for the same network and options.
  Model(const ModelOptions& options, Program training, Program evaluation);

  Device& device() const { return memory_->device(); }
  Executable& training() { return *training_; }
  Executable& evaluation() { return *evaluation_; }
  const Executable& training() const { return *training_; }
  const Executable& evaluation() const { return *evaluation_; }
  const ModelMemory& memory() const { return *memory_; }
  std::size_t memory_bytes() const { return memory_->total_bytes(); }
  std::int64_t parameter_count() const;

  struct LossScale {
    double scale = 1;
    double skipped = 0;  // updates
  };
  std::optional<LossScale> loss_scale() const;  // of training with layers in fp16

  void initialize(std::uint64_t seed);

  // Tensors in row-major order under their full names, with the memory that holds them. A tensor of which this rank has
  // a part is whole, with zeros where the other parts belong.
  class Snapshot {
   public:
    const std::vector<NamedTensor>& tensors() const { return tensors_; }
    // Tensors of another rank. What several ranks have is taken once; parts of a tensor are put together.
    void join(Snapshot other);
    // The part of a tensor that its rank has; of dim -1: all of it.
    Shard shard_of(const std::string& name) const;
    // Copies what it views of the model, and lets go of what no tensor views: from now on it has just its tensors'
    // bytes, which stay as they are while the model trains on.
    void own();
    // A tensor that another process has, or has that part of.
    void add(const std::string& name, const Shape& shape, const Shard& shard, std::vector<float> part);

   private:
    friend class Model;
    void put_together(const NamedTensor& part, const Shard& shard);

    std::deque<std::vector<float>> storage_;
    std::vector<NamedTensor> tensors_;    // views of the storage and of the model
    std::map<std::string, Shard> parts_;  // of tensors that this rank has a part of
  };
  enum class Contents {
    model,
    model_and_optimizer,
    gradients,  // under their parameters' names, as the last update saw them: sums over replicas and micro-batches
  };
  // Where replicas keep parts only, all of them must call it, and the first one gets the tensors.
  Snapshot snapshot(Contents contents) const;

  // The model's tensors as they lie in this rank's memory, in the order of its program's parameters. Not of replicas
  // that keep only parts.
  struct Held {
    const Parameter* parameter = nullptr;
    const TensorDesc* desc = nullptr;
    std::byte* values = nullptr;
    std::byte* gradient = nullptr;  // summed as the last update saw it; null: the tensor is not trained
  };
  std::vector<Held> held() const;

  // Every tensor of the model must be there with its shape; `file` is what errors name.
  void load(const SafetensorsFile& file, Contents contents);

 private:
  struct Entry {
    std::string name;
    ValueId value = kNoValue;  // gives shape and layout
    Region region = Region::none;
    std::size_t base = 0;  // of its flat buffer in the region; of a tensor that is in none, its own
    int parameter = -1;    // its index, of a tensor in a flat buffer
    Shard shard = {};
  };
  std::vector<Entry> entries(Contents contents) const;
  std::byte* data(const Entry& entry) const;
  void write(const Entry& entry, std::span<const float> whole) const;
  void reset_loss_scale();

  std::unique_ptr<ModelMemory> memory_;
  std::unique_ptr<Executable> training_;
  std::unique_ptr<Executable> evaluation_;
  std::unique_ptr<FlatBuffers> flat_;
  std::vector<std::string> state_names_;  // of the optimiser
  LossScaling loss_scaling_;
};

// Compiles both programs and takes the memory.
Model make_model(const NetworkSpec& network, const ModelOptions& options);

}  // namespace trifold
