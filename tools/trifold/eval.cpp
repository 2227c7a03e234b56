// trifold eval job.json --checkpoint FILE: scores a checkpoint or an exported model on the test set.
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "insight/metrics/evaluation_report.h"
#include "job_arguments.h"
#include "parallel/processes/launch.h"
#include "runtime/checkpoint/atomic_file.h"
#include "runtime/train/job_data.h"
#include "runtime/train/parallel_model.h"
#include "saved_model.h"

namespace trifold {
namespace {

struct EvalCommand {
  JobArguments job;
  SavedModel saved;
  std::string split = "test";
  std::string details_file;  // empty: none

  void run() const {
    refuse_several_processes("eval");
    const Job loaded = job.load();
    const SafetensorsFile file = saved.open(loaded);
    const auto dataset = open_split(loaded, split == "train" ? Split::train : Split::test);
    const bool classifies = dataset->target_width() == 0;
    if (!classifies && !details_file.empty())
      fail_input("--details is about classes, but the model predicts numbers (mse)");
    ParallelModel model(loaded);
    model.load(file, Model::Contents::model);
    const std::unique_ptr<Loader> loader = make_evaluation_loader(loaded, dataset);
    const auto begin = std::chrono::steady_clock::now();
    EvaluationDetails details(loaded.model.classes);
    const Score score = model.evaluate(*loader, details_file.empty() ? nullptr : &details);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double images_per_s = static_cast<double>(score.samples) / seconds;
    if (!details_file.empty()) write_file_atomically(details_file, evaluation_json(details, *dataset));
    if (job.json) {
      nlohmann::ordered_json json = {{"event", "done"},          {"split", split},
                                     {"samples", score.samples}, {"test_loss", score.loss},
                                     {"test_accuracy", nullptr}, {"images_per_s", images_per_s}};
      if (classifies) json["test_accuracy"] = score.accuracy;
      fmt::print("{}\n", json.dump());
      return;
    }
    const std::string accuracy = classifies ? fmt::format(", accuracy {:.2f} %", 100 * score.accuracy) : "";
    fmt::print("{} samples of the {} set: loss {:.4f}{}, {:.0f} images/s\n", score.samples, split, score.loss, accuracy,
               images_per_s);
  }
};

}  // namespace

void add_eval_command(CLI::App& app) {
  auto command = std::make_shared<EvalCommand>();
  CLI::App* sub =
      app.add_subcommand("eval", "scores a trained model: trifold eval models/lenet5.json --run runs/lenet5");
  command->job.declare(*sub);
  command->saved.declare(*sub);
  sub->add_option("--split", command->split, "test (default) or train")->check(CLI::IsMember({"test", "train"}));
  sub->add_option("--details", command->details_file,
                  "file to write as JSON: confusion matrix, and the images with the largest loss");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
