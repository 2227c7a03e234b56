// A job: what to train, on what, how, and on which devices; read from a JSON file and completely validated, except for
// what only the data (labels) or the layers' shapes can show.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "layers/network.h"
#include "runtime/config/data_section.h"
#include "runtime/config/overrides.h"
#include "runtime/config/plan_section.h"
#include "runtime/config/train_section.h"

namespace trifold {

struct Job {
  std::string name;  // of the run; default: the file's name
  std::filesystem::path file;
  NetworkSpec model;
  DataConfig data;
  TrainConfig train;
  PlanConfig plan;
};

// Whether two jobs ask for the same; the files and lines they were written in do not count.
bool operator==(const Job& a, const Job& b);

Job load_job(const std::filesystem::path& path, std::span<const Override> overrides = {});

// The same from memory. `path` is what errors call it and what paths in it are relative to.
Job parse_job(std::string_view text, const std::filesystem::path& path, std::span<const Override> overrides = {});

// The resolved job: complete, with all defaults, layers unfolded and paths absolute. Loads as an equal Job.
std::string to_json_text(const Job& job);

}  // namespace trifold
