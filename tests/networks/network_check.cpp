#include "networks/network_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>
#include <unistd.h>

#include "networks/dice.h"
#include "networks/local_server.h"
#include "networks/node_check.h"
#include "networks/plain_network.h"
#include "runtime/train/job_data.h"
#include "runtime/train/parallel_model.h"

namespace trifold::test {
namespace {

constexpr int kSteps = 2;  // in the second, momentum is not zero
constexpr int kDisturbedRuns = 3;
constexpr int kMoreRuns = 13;         // before something counts as different
constexpr int kMostDraws = 30;        // of batches, until none comes close to a kink
constexpr double kMargin = 16;        // times the largest deviation of disturbed runs
constexpr double kMargin16 = 10;      // in 16 bits, times their root mean square
constexpr double kMarginCrossed = 2;  // likewise, of runs that cross kinks

std::vector<double> doubles_of(const NamedTensor& tensor) {
  const auto* values = reinterpret_cast<const float*>(tensor.data.data());
  return {values, values + tensor.data.size() / sizeof(float)};
}

Tensors tensors_of(const Model::Snapshot& snapshot) {
  Tensors tensors;
  for (const NamedTensor& tensor : snapshot.tensors()) tensors[tensor.name] = doubles_of(tensor);
  return tensors;
}

bool uses_16_bits(const Job& job) {
  return job.train.precision != DType::f32 || std::ranges::any_of(job.model.layers, [](const LayerSpec& layer) {
           return layer.values.has("precision") && layer.values.text("precision") != "fp32";
         });
}

// Results of exact and disturbed runs under one name each.
Tensors named_results(const PlainNetwork::Pass& pass) {
  Tensors results = pass.states;
  for (const auto& [name, gradient] : pass.gradients) results["gradient of " + name] = gradient;
  results["loss"] = {pass.loss};
  return results;
}

// How far disturbed runs lie from the exact one, by tensor.
class Spread {
 public:
  explicit Spread(const Tensors& exact) : exact_(exact) {}

  void add(const Tensors& disturbed) {
    for (const auto& [name, values] : disturbed) {
      Of& of = of_[name];
      const std::vector<double>& exact = exact_.at(name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double deviation = std::abs(values[i] - exact[i]);
        of.largest = std::max(of.largest, deviation);
        of.squares += deviation * deviation;
      }
      of.count += static_cast<double>(values.size());
    }
  }
  double largest(const std::string& name) const { return of_.at(name).largest; }
  // 0 without any run.
  double root_mean_square(const std::string& name) const {
    const auto found = of_.find(name);
    return found == of_.end() ? 0 : std::sqrt(found->second.squares / found->second.count);
  }

 private:
  struct Of {
    double largest = 0;
    double squares = 0;
    double count = 0;
  };
  const Tensors& exact_;
  std::map<std::string, Of> of_;
};

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Logarithms of the probabilities that each row of scores stands for. Programs may leave out a log_softmax before the
// loss, so scores are compared up to a constant per row.
std::vector<double> log_probabilities(std::vector<double> scores, std::int64_t classes) {
  for (auto row = scores.begin(); classes > 0 && row != scores.end(); row += classes) {
    const double largest = *std::max_element(row, row + classes);
    double sum = 0;
    for (auto score = row; score != row + classes; ++score) sum += std::exp(*score - largest);
    for (auto score = row; score != row + classes; ++score) *score -= largest + std::log(sum);
  }
  return scores;
}

class Checker {
 public:
  Checker(const Job& job, std::uint64_t seed)
      : job_(job),
        seed_(seed),
        dice_(seed, 3),
        half_(uses_16_bits(job)),
        model_(job, nullptr, job.plan.servers ? Updates::elsewhere : Updates::here),
        plain_(job, model_.plan().pipeline.micro_batches) {
    if (job.plan.servers) server_.emplace(job);
    rounding_.precision = job.train.precision;
    rounding_.winograd = job.train.math == Math::fast;
  }

  NetworkCheck run() {
    watch_nodes();
    start();
    for (int step = 1; step <= kSteps && !result_.overflowed; ++step) check_step(step);
    if (!result_.overflowed) check_evaluation();
    watchers_.clear();
    return std::move(result_);
  }

 private:
  // --- the model

  // Starts as a job does, except that tensors of all zeros or ones get random values: with equal values, a gradient in
  // the wrong place would not be noticed.
  void start() {
    model_.initialize(job_.train.seed);
    Model::Snapshot snapshot = model_.snapshot(Model::Contents::model);
    std::vector<NamedTensor> tensors = snapshot.tensors();
    std::vector<std::vector<float>> drawn(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::vector<double> values = doubles_of(tensors[i]);
      if (std::ranges::any_of(values, [&](double value) { return value != values[0]; })) continue;
      const double middle = values[0];
      for (std::size_t element = 0; element < values.size(); ++element)
        drawn[i].push_back(static_cast<float>(middle + dice_.uniform(-0.4, 0.4)));
      tensors[i].data = std::as_bytes(std::span<const float>(drawn[i]));
    }
    const auto file =
        std::filesystem::temp_directory_path() / fmt::format("trifold_networks_{}_{}.safetensors", ::getpid(), seed_);
    write_safetensors(file, tensors, {});
    model_.load(SafetensorsFile(file), Model::Contents::model);
    std::filesystem::remove(file);
  }

  void watch_nodes() {
    if (!model_.device().host_memory()) return;
    for (int rank = 0; rank < model_.ranks_here(); ++rank)
      for (const auto& chunk : model_.chunks(rank))
        for (Executable* program : {&chunk->training(), &chunk->evaluation()})
          if (program->slots() == 1 && model_.plan().pipeline.micro_batches == 1)
            watchers_.push_back(
                {place_of(model_.plan().mesh, rank).data,
                 std::make_unique<NodeCheck>(*program, job_.train.math == Math::strict,
                                             [this](const std::string& what, double error, double allowed) {
                                               const std::lock_guard lock(mutex_);
                                               note("kernel " + what, error, allowed);
                                               ++result_.nodes;
                                             })});
  }

  // Each replica has its part of the batch.
  void tell_watchers(std::int64_t first_sample, double mean_class_weight) {
    for (const auto& [replica, watcher] : watchers_) {
      StepContext context = context_;
      context.first_sample = first_sample + replica * (plain_.micro_batch() / model_.plan().mesh.data);
      context.mean_class_weight = mean_class_weight;
      watcher->set_step(context);
    }
  }

  void note(const std::string& what, double error, double allowed) {
    const bool right = error <= allowed;  // a NaN is not
    if (!right) result_.differences.push_back({fmt::format("{}{}", where_, what), error, allowed});
    if (right && error > result_.closest * allowed) {
      result_.closest = error / allowed;
      result_.tightest = where_ + what;
    }
  }

  // The model and its optimiser.
  Tensors state() {
    Tensors tensors = tensors_of(model_.snapshot(Model::Contents::model_and_optimizer));
    if (server_) server_->add_state(model_, tensors);
    return tensors;
  }

  // --- samples

  Batch draw_batch(std::int64_t count) {
    Batch batch;
    const auto pixels = static_cast<std::size_t>(count * job_.model.input.elements());
    if (program_prepares_images(job_))
      for (std::size_t i = 0; i < pixels; ++i) batch.raw.push_back(static_cast<std::uint8_t>(dice_.below(256)));
    else
      for (std::size_t i = 0; i < pixels; ++i) batch.images.push_back(static_cast<float>(dice_.uniform(-1.7, 1.7)));
    for (std::int64_t i = 0; i < count; ++i)
      batch.labels.push_back(job_.model.classes > 0
                                 ? static_cast<std::int32_t>(dice_.below(static_cast<std::size_t>(job_.model.classes)))
                                 : 0);
    const Graph& graph = plain_.training_graph();
    if (graph.targets != kNoValue) {
      const std::int64_t width = graph[graph.targets].shape.elements() / graph[graph.targets].shape[0];
      for (std::int64_t i = 0; i < count * width; ++i)
        batch.targets.push_back(static_cast<float>(dice_.uniform(-1, 1)));
    }
    batch.count = static_cast<int>(count);
    batch.first_sample = 1000 + dice_.below(100000);
    return batch;
  }

  // --- one step

  Rounding rounding(int run) const { return {rounding_, seed_ * 100 + static_cast<std::uint64_t>(run) + 1}; }

  void check_step(int step) {
    where_ = fmt::format("step {}: ", step);
    const Tensors before = state();
    context_ = {.seed = job_.train.seed,
                .first_sample = 0,
                .learning_rate = job_.train.schedule.base_rate * (step == 1 ? 1 : 0.7),
                .updates = step};
    const auto scale = before.find("optimizer.loss_scale");
    rounding_.loss_scale = scale == before.end() ? 1 : scale->second[0];

    Batch batch;
    Tensors exact;
    double correct = 0;
    bool kinked = true;
    Kinks kinks;
    Runs runs;
    bool correct_varies = false;
    const auto disturb = [&](int run) {
      Rounding errors = rounding(run);
      const PlainNetwork::Pass pass = plain_.train(before, batch, context_, &errors, &kinks);
      correct_varies = correct_varies || pass.correct != correct;
      result_.overflowed = result_.overflowed || errors.overflowed();
      runs.disturbed.push_back(named_results(pass));
    };
    const auto disturb_more = [&] {
      for (int run = 0; run < kMoreRuns; ++run) disturb(kDisturbedRuns + run);
      // In fp32 no batch is used that comes close to a kink; in 16 bits every one does.
      for (int run = 0; half_ && run < kMoreRuns; ++run) {
        Rounding errors = rounding(kDisturbedRuns + kMoreRuns + run);
        errors.cross(kinks);
        runs.crossed.push_back(named_results(plain_.train(before, batch, context_, &errors)));
      }
    };
    for (int draw = 0; draw < (half_ ? 1 : kMostDraws) && kinked; ++draw) {
      batch = draw_batch(job_.train.batch);
      kinks = {};
      const PlainNetwork::Pass pass = plain_.train(before, batch, context_, nullptr, &kinks);
      exact = named_results(pass);
      correct = pass.correct;
      runs = {};
      for (int run = 0; run < kDisturbedRuns; ++run) disturb(run);
      kinked = !half_ && kinks.close(kMargin);
    }
    if (result_.overflowed) return;

    tell_watchers(batch.first_sample, plain_.mean_class_weight(batch));
    model_.start_step(&batch, context_);
    const Executable::Report report = model_.finish_step();
    if (server_) server_->update(model_, context_);
    const Tensors after = state();
    Tensors gradients = tensors_of(model_.snapshot(Model::Contents::gradients));
    for (auto& [name, values] : gradients)
      for (double& value : values) value /= rounding_.loss_scale;

    Tensors mine;
    for (const auto& [name, values] : exact)
      if (after.contains(name)) mine[name] = after.at(name);
    for (const auto& [name, values] : gradients) mine["gradient of " + name] = values;
    mine["loss"] = {report.loss};
    if (kinked) {
      ++result_.kinked_steps;
      std::erase_if(mine, [](const auto& entry) { return entry.first.starts_with("gradient"); });
    }
    const bool skipped = scale != before.end() && after.at("optimizer.loss_scale")[2] != scale->second[2];
    if (skipped) std::erase_if(mine, [](const auto& entry) { return entry.first.starts_with("gradient"); });
    compare(mine, exact, runs, disturb_more);
    if (report.correct != correct && !half_) {
      for (int run = 0; run < kMoreRuns && !correct_varies; ++run) disturb(100 + run);
      if (!correct_varies) note("correct samples", std::abs(report.correct - correct), 0);
    }
    if (!skipped) compare_update(before, gradients, after, scale == before.end() ? 0 : scale->second[2]);
  }

  struct Runs {
    std::vector<Tensors> disturbed;
    std::vector<Tensors> crossed;  // those that end up on either side of kinks
  };

  // All of `mine` with what is exact. What is off is held against more runs before it counts.
  template <class Disturb>
  void compare(const Tensors& mine, const Tensors& exact, Runs& runs, Disturb disturb_more) {
    for (const bool final : {false, true}) {
      Spread spread(exact);
      Spread crossed(exact);
      for (const Tensors& run : runs.disturbed) spread.add(run);
      for (const Tensors& run : runs.crossed) crossed.add(run);
      bool all_right = true;
      for (const auto& [name, values] : mine) {
        const auto [error, allowed] = compare(name, values, exact.at(name), spread, crossed);
        all_right = all_right && error <= allowed;
      }
      if (!all_right && !final) {
        disturb_more();
        continue;
      }
      for (const auto& [name, values] : mine) {
        const auto [error, allowed] = compare(name, values, exact.at(name), spread, crossed);
        note(name, error, allowed);
      }
      return;
    }
  }

  std::pair<double, double> compare(const std::string& name, const std::vector<double>& mine,
                                    const std::vector<double>& exact, const Spread& spread,
                                    const Spread& crossed) const {
    double largest = 0;
    double squares = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = i < mine.size() ? std::abs(mine[i] - exact[i]) : NAN;
      if (!(error <= largest)) largest = error;
      squares += error * error;
    }
    const double floor = 4 * unit_of(DType::f32) * largest_of(exact) + 1e-12;
    if (!half_) return {largest, kMargin * spread.largest(name) + floor};
    return {
        std::sqrt(squares / static_cast<double>(exact.size())),
        std::max(kMargin16 * spread.root_mean_square(name), kMarginCrossed * crossed.root_mean_square(name)) + floor};
  }

  // The optimiser's step, from the program's own gradients.
  void compare_update(const Tensors& before, const Tensors& gradients, const Tensors& after, double skipped) {
    StepContext context = context_;
    context.updates -= static_cast<std::int64_t>(skipped);
    const Tensors exact = plain_.update(before, gradients, context);
    // Norms (of all gradients, to clip them; of a parameter and its gradient, for LARS) are sums of many squares.
    double terms = 1;
    for (const auto& [name, values] : gradients) terms += static_cast<double>(values.size());
    const bool lars = job_.train.optimizer.kind == OptimizerKind::lars;
    // Every input a little more or less, in combinations that show each one's influence: rows of a Hadamard matrix.
    enum Column : unsigned { kGradients = 1, kParameters, kState, kSecondState, kRate, kNorm };
    Tensors spread;
    for (unsigned run = 0; run < 8; ++run) {
      const auto factor = [&](unsigned column) {
        const bool of_norm = column == kNorm || (lars && column == kRate);
        const double error = unit_of(DType::f32) * (of_norm ? growth_of_sum(terms) : 1);
        return 1 + (std::popcount(run & column) % 2 == 0 ? error : -error);
      };
      const auto scaled = [&](const Tensors& from, const auto& column_of) {
        Tensors to = from;
        for (auto& [name, values] : to)
          for (double& value : values) value *= factor(column_of(name));
        return to;
      };
      StepContext disturbed = context;
      disturbed.learning_rate *= factor(kRate);
      const Tensors moved =
          plain_.update(scaled(before,
                               [](const std::string& name) {
                                 if (!name.starts_with("optimizer.")) return kParameters;
                                 return name.ends_with("moment2") ? kSecondState : kState;
                               }),
                        scaled(gradients, [](const std::string&) { return kGradients; }), disturbed, factor(kNorm));
      for (const auto& [name, values] : moved) {
        std::vector<double>& of = spread[name];
        of.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
          of[i] = std::max(of[i], std::abs(values[i] - exact.at(name)[i]));
      }
    }
    for (const auto& [name, values] : exact) {
      const std::vector<double>& mine = after.at(name);
      double worst = 0;
      double allowed = 1e-30;
      std::size_t place = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double error = std::abs(mine[i] - values[i]);
        const double limit = kMargin * spread.at(name)[i] + 2 * unit_of(DType::f32) * std::abs(values[i]) + 1e-30;
        if (error * allowed <= worst * limit) continue;
        worst = error;
        allowed = limit;
        place = i;
      }
      note(fmt::format("update of {}[{}]", name, place), worst, allowed);
    }
  }

  void check_evaluation() {
    where_ = "evaluation: ";
    context_ = {};
    const Tensors model = state();
    const Batch batch = draw_batch(plain_.micro_batch());
    tell_watchers(0, 1);
    const std::vector<float> outputs = model_.outputs(batch);
    const std::int64_t classes = job_.model.classes;
    const Tensors exact = {{"output", log_probabilities(plain_.evaluate(model, batch), classes)}};
    Runs runs;
    const auto disturb = [&](int from, int count) {
      for (int run = from; run < from + count; ++run) {
        Rounding errors = rounding(run);
        runs.disturbed.push_back({{"output", log_probabilities(plain_.evaluate(model, batch, &errors), classes)}});
        result_.overflowed = result_.overflowed || errors.overflowed();
      }
    };
    disturb(0, kDisturbedRuns);
    if (result_.overflowed) return;
    compare({{"output", log_probabilities({outputs.begin(), outputs.end()}, classes)}}, exact, runs,
            [&] { disturb(kDisturbedRuns, kMoreRuns); });
  }

  Job job_;
  std::uint64_t seed_;
  Dice dice_;
  bool half_;  // something is in 16 bits
  ParallelModel model_;
  std::optional<LocalServer> server_;  // where parameter servers do the updates
  PlainNetwork plain_;
  RoundingOptions rounding_;
  StepContext context_;
  std::vector<std::pair<int, std::unique_ptr<NodeCheck>>> watchers_;  // with the replica they are of
  std::mutex mutex_;                                                  // ranks note what their kernels make
  std::string where_;
  NetworkCheck result_;
};

}  // namespace

NetworkCheck check_network(const Job& job, std::uint64_t seed) {
  return Checker(job, seed).run();
}

std::string to_string(const NetworkCheck& check) {
  std::string text;
  for (const Difference& difference : check.differences)
    text += fmt::format("{}: off by {:.3g}, allowed {:.3g}\n", difference.what, difference.error, difference.allowed);
  return text;
}

}  // namespace trifold::test
