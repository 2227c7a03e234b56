#include "runtime/config/job.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "runtime/config/model_section.h"
#include "runtime/config/server_section.h"
#include "runtime/config/validate.h"

namespace trifold {
namespace {

const std::vector<std::string>& job_keys() {
  static const std::vector<std::string> keys = {"name", "model", "data", "train", "plan", "$schema"};
  return keys;
}

bool names_the_model_file(const Override& setting) {
  return setting.path == std::vector<std::string>{"model"} || setting.path == std::vector<std::string>{"model", "file"};
}

// A run folder is named after the job.
std::string read_name(const JsonNode& job, const std::filesystem::path& path) {
  const JsonNode* name = job.find("name");
  if (name == nullptr) return path.stem().empty() ? "job" : path.stem().string();
  const bool plain = name->is_text() && !name->text.empty() && name->text.front() != '.' &&
                     std::all_of(name->text.begin(), name->text.end(), [](unsigned char letter) {
                       return std::isalnum(letter) != 0 || letter == '_' || letter == '.' || letter == '-';
                     });
  if (!plain)
    fail_at(*name, "expected a text of letters, digits, '_', '-' and '.' (it names a folder), found {}", found(*name));
  return name->text;
}

Job read_job(JsonNode tree, const std::filesystem::path& path, std::span<const Override> overrides) {
  check_is_object(tree, "a job");
  // Which file holds the model is settled first, so that other settings reach what is in it.
  for (const Override& setting : overrides)
    if (names_the_model_file(setting)) apply_override(tree, setting);
  if (JsonNode* model = tree.find("model")) *model = load_model_file(*model);
  for (const Override& setting : overrides)
    if (!names_the_model_file(setting)) apply_override(tree, setting);

  check_keys(tree, job_keys(), "a job");
  const JsonNode* model = tree.find("model");
  if (model == nullptr) fail_at(tree, "a job needs 'model': a model object or the path of a model file");
  const JsonNode* data = tree.find("data");
  if (data == nullptr) fail_at(tree, "a job needs 'data': where the samples come from");

  Job job;
  job.name = read_name(tree, path);
  job.file = path;
  job.model = read_model(*model);
  job.data = read_data(*data, job.model);
  job.train = read_train(tree.find("train"), tree);
  job.plan = read_plan(tree.find("plan"));
  settle_division(job, tree);
  check_node_rules(job, tree);
  if (job.plan.servers) fit_to_servers(job, tree);
  return job;
}

bool same_layer(const LayerSpec& a, const LayerSpec& b) {
  return std::tie(a.id, a.type, a.in, a.values) == std::tie(b.id, b.type, b.in, b.values);
}

}  // namespace

bool operator==(const Job& a, const Job& b) {
  return a.name == b.name && a.model.input == b.model.input && a.model.classes == b.model.classes &&
         std::equal(a.model.layers.begin(), a.model.layers.end(), b.model.layers.begin(), b.model.layers.end(),
                    same_layer) &&
         a.data == b.data && a.train == b.train && a.plan == b.plan;
}

Job load_job(const std::filesystem::path& path, std::span<const Override> overrides) {
  return read_job(read_json_file(path), path, overrides);
}

Job parse_job(std::string_view text, const std::filesystem::path& path, std::span<const Override> overrides) {
  return read_job(parse_json(text, path.string()), path, overrides);
}

}  // namespace trifold
