// The "plan" section of a job: how the work is divided over devices. What this version cannot do it refuses instead of
// ignoring it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/data/gradient_sync.h"
#include "parallel/pipeline/pipeline_schedule.h"
#include "parallel/servers/server_sync.h"
#include "runtime/config/json_source.h"
#include "runtime/config/object_type.h"

namespace trifold {

struct TensorSplit {
  std::string match;  // ids of layers, with * for any letters
  std::string by;

  bool operator==(const TensorSplit&) const = default;
};

// The stages of a pipeline that repeat their forward work for their backward work.
struct StageRecompute {
  bool all = false;                       // those that hold more than one micro-batch at a time
  std::vector<std::int64_t> stages = {};  // these

  bool operator==(const StageRecompute&) const = default;
};

struct PlanConfig {
  std::string device = "auto";  // "auto", "cpu", "cpu:4" (ranks), "cuda", "cuda:2" (ranks), "cuda#1" (the second)
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::string schedule{kDefaultSchedule};
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;                  // of layers, a stage
  std::vector<std::int64_t> stages = {};    // layers a stage; empty: chosen
  bool measures_stages = false;             // chosen by measured times
  std::vector<std::string> cut_after = {};  // layers that end a stage; empty: as `stages` says
  StageRecompute recompute = {};
  std::vector<TensorSplit> split = {};
  std::int64_t zero = 0;
  std::int64_t bucket_bytes = 0;  // 0: chosen
  GradientSync sync = {};
  std::optional<ServerSync> servers = {};  // with GradientSync::Kind::servers; all other fields are of a worker each

  bool operator==(const PlanConfig&) const = default;
};

const NestedType& plan_section();

PlanConfig read_plan(const JsonNode* section);

}  // namespace trifold
