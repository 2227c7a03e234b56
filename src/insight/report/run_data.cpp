#include "insight/report/run_data.h"

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "insight/report/metric_series.h"
#include "insight/report/network_picture.h"
#include "insight/report/short_number.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;
using ReportJson = nlohmann::ordered_json;

// The page is one file that must stay quick: of long lists the first are shown, and their number is said.
constexpr std::size_t kMostKernels = 1500;
constexpr std::size_t kMostSamples = 32;
constexpr std::size_t kMostSpans = 1500;  // of a rank's timeline
constexpr std::size_t kMostLosses = 500;
constexpr std::size_t kMostMemoryBytes = 300'000;  // of JSON text, about eight stages of ResNet-50

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) fail_input("cannot read '{}'", file.string());
  return std::move(text).str();
}

// Nothing where there is no such file.
std::optional<ReportJson> read_object(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  try {
    ReportJson json = ReportJson::parse(read_text(file));
    if (!json.is_object()) fail_input("'{}' is no JSON object, so there is nothing to draw in it", file.string());
    return json;
  } catch (const ReportJson::parse_error& fault) {
    fail_input("'{}' is no valid JSON (byte {}): write it again, or take it out of the folder", file.string(),
               fault.byte);
  }
}

void shorten(ReportJson& list, std::size_t most) {
  if (list.is_array() && list.size() > most) list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
}

// Whole numbers, bytes most of all, are kept: somebody may want to compare them.
void shorten_numbers(ReportJson& json) {
  if (json.is_number_float()) {
    const double value = json.get<double>();
    if (value == std::trunc(value) && std::abs(value) < 1e15)
      json = static_cast<std::int64_t>(value);
    else
      json = short_number(value);
  }
  if (json.is_structured())
    for (ReportJson& each : json) shorten_numbers(each);
}

void require(const ReportJson& json, const fs::path& file, std::initializer_list<const char*> lists) {
  for (const char* name : lists)
    if (!json.contains(name) || !json[name].is_array())
      fail_input("'{}' has no list \"{}\", so it is not what its name says", file.string(), name);
}

// Every n-th loss of long comparisons: their difference to the single run is drawn step by step.
void thin_losses(ReportJson& plan) {
  const auto losses = plan.find("losses");
  if (losses == plan.end() || !losses->is_array() || losses->size() <= kMostLosses) return;
  const std::size_t stride = (losses->size() + kMostLosses - 1) / kMostLosses;
  ReportJson kept = ReportJson::array();
  for (std::size_t i = stride - 1; i < losses->size(); i += stride) kept.push_back((*losses)[i]);
  *losses = std::move(kept);
  plan["losses_stride"] = stride;
}

ReportJson compare_data(ReportJson compare, const fs::path& file) {
  require(compare, file, {"plans"});
  for (ReportJson& plan : compare["plans"]) {
    if (!plan.is_object()) fail_input("'{}' has a plan that is no object", file.string());
    thin_losses(plan);
    plan.erase("collectives");  // by kind they are in bytes_sent, by pair of ranks in sent_to
    if (plan.contains("timeline") && plan["timeline"].is_array())
      for (ReportJson& rank : plan["timeline"])
        if (rank.is_object() && rank.contains("spans")) shorten(rank["spans"], kMostSpans);
  }
  // Losses keep their digits: plans differ in the last ones.
  for (ReportJson& plan : compare["plans"])
    for (auto& [key, value] : plan.items())
      if (key != "losses") shorten_numbers(value);
  return compare;
}

// A list of objects with each key once: {"count", "columns": {key: [..]}}; null where an object has none.
ReportJson columns_of(const ReportJson& objects) {
  ReportJson columns = ReportJson::object();
  for (std::size_t i = 0; i < objects.size(); ++i) {
    for (const auto& [key, value] : objects[i].items()) {
      ReportJson& column = columns[key];
      while (column.size() < i) column.push_back(nullptr);
      column.push_back(value);
    }
  }
  for (ReportJson& column : columns)
    while (column.size() < objects.size()) column.push_back(nullptr);
  return {{"count", objects.size()}, {"columns", columns}};
}

// Ranks' memory over a step: the first that fit.
void shorten_memory(ReportJson& profile) {
  if (!profile.contains("memory")) return;
  if (!profile["memory"].is_object() || !profile["memory"].contains("timelines")) {
    profile.erase("memory");
    return;
  }
  profile["memory"]["timelines_in_all"] = profile["memory"]["timelines"].size();
  ReportJson& timelines = profile["memory"]["timelines"];
  std::size_t bytes = 0;
  std::size_t kept = 0;
  while (kept < timelines.size() && (bytes += timelines[kept].dump().size()) <= kMostMemoryBytes) ++kept;
  shorten(timelines, kept);
}

ReportJson profile_data(ReportJson profile, const fs::path& file) {
  require(profile, file, {"kernels"});
  for (const ReportJson& kernel : profile["kernels"])
    if (!kernel.is_object()) fail_input("'{}' has a kernel that is no object", file.string());
  profile["kernels_in_all"] = profile["kernels"].size();
  shorten(profile["kernels"], kMostKernels);
  profile["kernels"] = columns_of(profile["kernels"]);
  shorten_memory(profile);
  shorten_numbers(profile);
  return profile;
}

ReportJson evaluation_data(ReportJson evaluation) {
  if (evaluation.contains("worst")) shorten(evaluation["worst"], kMostSamples);
  return evaluation;
}

void add_job(const fs::path& folder, ReportJson& data) {
  const fs::path file = folder / "job.json";
  std::optional<ReportJson> job = read_object(file);
  if (!job) return;
  data["job"] = *job;
  // The report is of what was measured; a job that this version or this machine refuses is no reason to show none.
  try {
    data["network"] = network_picture(parse_job(job->dump(), file));
  } catch (const Error& error) {
    data["network_missing"] = error.what();
  }
}

}  // namespace

ReportJson run_data(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail_input("there is no run folder '{}'", folder.string());
  const fs::path shown = fs::weakly_canonical(folder, error);
  ReportJson data = {{"name", shown.filename().string()}, {"folder", folder.string()}};
  if (auto environment = read_object(folder / "environment.json")) data["environment"] = std::move(*environment);
  if (fs::exists(folder / "metrics.jsonl", error)) data["metrics"] = to_json(read_metrics(folder / "metrics.jsonl"));
  if (auto evaluation = read_object(folder / "evaluation.json"))
    data["evaluation"] = evaluation_data(std::move(*evaluation));
  if (auto compare = read_object(folder / "compare.json"))
    data["compare"] = compare_data(std::move(*compare), folder / "compare.json");
  if (auto profile = read_object(folder / "profile.json"))
    data["profile"] = profile_data(std::move(*profile), folder / "profile.json");
  if (!data.contains("metrics") && !data.contains("compare") && !data.contains("profile"))
    fail_input("'{}' holds no run: it has none of metrics.jsonl, compare.json and profile.json", folder.string());
  add_job(folder, data);
  return data;
}

}  // namespace trifold
