#include "parallel/servers/audit/audit_check.h"

#include <algorithm>
#include <compare>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "parallel/servers/audit/audit_log.h"
#include "parallel/servers/json_fields.h"

namespace trifold {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kFaultsTold = 20;

// A state of a slice: who has this one has exactly these numbers.
struct StateName {
  std::int64_t slice = 0;
  std::int64_t version = 0;
  std::string digest;

  auto operator<=>(const StateName&) const = default;
};

class Audit {
 public:
  void read(const AuditFile& file) {
    result_.members += 1;
    std::map<std::int64_t, StateName> current;  // by slice: what this member has
    std::size_t begin = 0;
    for (int number = 1;; ++number) {
      const std::size_t end = file.text.find('\n', begin);
      if (end == std::string::npos) return;
      try {
        read_line(parse_object(file.text.substr(begin, end - begin), "it"), file.name, current);
      } catch (const Error& error) {
        fault(fmt::format("line {} of {} makes no sense: {}", number, file.name, error.what()));
      }
      begin = end + 1;
    }
  }

  AuditResult conclude() {
    if (last_.empty()) fault("no server says how the job ended: it has not, or has no servers with --audit");
    result_.slices = static_cast<std::int64_t>(last_.size());
    std::map<std::int64_t, std::set<ShardClock>> contained;  // by slice
    for (const auto& [slice, ending] : last_) contained[slice] = follow_back(ending.state);
    check_acknowledged(contained);
    return std::move(result_);
  }

 private:
  struct Made {
    std::vector<ShardClock> pushes;
    StateName from;
    std::string by;
  };
  struct Ending {
    std::int64_t epoch = -1;
    StateName state;
  };
  struct Acknowledged {
    std::string to;
    std::set<std::int64_t> slices;
  };

  void fault(std::string sentence) {
    if (result_.faults.size() < kFaultsTold)
      result_.faults.push_back(std::move(sentence));
    else
      result_.more_faults += 1;
  }

  static StateName state_in(const Json& line, const char* what) {
    return {integer_field(line, what), integer_field(line, "version"), text_field(line, "digest")};
  }

  void read_line(const Json& line, const std::string& by, std::map<std::int64_t, StateName>& current) {
    if (line.contains("own"))
      read_own(line, by, current);
    else if (line.contains("slice"))
      read_version(line, by, current);
    else if (line.contains("final"))
      read_final(line, by, current);
    else
      read_acknowledged(line, by);
  }

  void read_own(const Json& line, const std::string& by, std::map<std::int64_t, StateName>& current) {
    const StateName state = state_in(line, "own");
    const std::int64_t epoch = integer_field(line, "epoch");
    const auto [owner, alone] = owners_.try_emplace({state.slice, epoch}, by);
    if (!alone)
      fault(fmt::format("slice {} had two owners in epoch {}: {} and {}", state.slice, epoch, owner->second, by));
    if (flag_field(line, "first")) first_.insert(state);
    current.insert_or_assign(state.slice, state);
  }

  void read_version(const Json& line, const std::string& by, std::map<std::int64_t, StateName>& current) {
    const StateName state = state_in(line, "slice");
    Made made{.pushes = {}, .from = {}, .by = by};
    for (const Json& push : array_field(line, "pushes")) {
      if (!push.is_array() || push.size() != 2 || !push[0].is_number_integer() || !push[1].is_number_integer())
        fail_runtime("'pushes' is not a list of [shard, clock]");
      made.pushes.push_back({push[0].get<int>(), push[1].get<std::int64_t>()});
    }
    std::ranges::sort(made.pushes);
    const auto before = current.find(state.slice);
    if (before == current.end()) fail_runtime("slice {} changes, which it does not own", state.slice);
    made.from = before->second;
    if (made.from.version + 1 != state.version)
      fail_runtime("version {} of slice {} follows version {}", state.version, state.slice, made.from.version);
    before->second = state;
    // Made a second time, from the same pushes, when the first that made it was lost before anybody had it.
    const auto [known, added] = made_.try_emplace(state, made);
    if (!added && (known->second.pushes != made.pushes || known->second.from != made.from))
      fault(fmt::format("{} and {} made version {} of slice {} from different pushes", known->second.by, by,
                        state.version, state.slice));
  }

  void read_final(const Json& line, const std::string& by, const std::map<std::int64_t, StateName>& current) {
    const StateName state = state_in(line, "final");
    const auto held = current.find(state.slice);
    if (held == current.end() || held->second != state)
      fail_runtime("the last version of slice {} is not the one that it had", state.slice);
    const std::int64_t epoch = integer_field(line, "epoch");
    Ending& ending = last_[state.slice];
    if (ending.epoch == epoch)
      fault(fmt::format("slice {} has a last version of {} beside another's", state.slice, by));
    if (epoch > ending.epoch) ending = {epoch, state};
  }

  void read_acknowledged(const Json& line, const std::string& by) {
    const ShardClock push{static_cast<int>(integer_field(line, "shard")), integer_field(line, "clock")};
    const bool late = line.contains("late") && flag_field(line, "late");
    Acknowledged& known = acknowledged_[push];
    known.to = by;
    for (const Json& slice : array_field(line, "slices")) {
      if (!slice.is_number_integer()) fail_runtime("'slices' is not a list of numbers");
      if (late)
        result_.late += 1;
      else
        result_.acknowledged += known.slices.insert(slice.get<std::int64_t>()).second ? 1 : 0;
    }
  }

  std::set<ShardClock> follow_back(StateName state) {
    std::set<ShardClock> contained;
    std::optional<std::string> owner;
    while (!first_.contains(state)) {
      const auto made = made_.find(state);
      if (made == made_.end()) {
        fault(fmt::format("version {} of slice {}, which {} went on from, was made by nobody", state.version,
                          state.slice, owner.value_or("its last owner")));
        return contained;
      }
      for (const ShardClock& push : made->second.pushes)
        if (!contained.insert(push).second)
          fault(fmt::format("shard {}'s push of clock {} is in slice {} twice", push.shard, push.clock, state.slice));
      result_.versions += 1;
      result_.owners += owner == made->second.by ? 0 : 1;
      owner = made->second.by;
      state = made->second.from;
    }
    return contained;
  }

  void check_acknowledged(const std::map<std::int64_t, std::set<ShardClock>>& contained) {
    for (const auto& [push, known] : acknowledged_) {
      std::vector<std::int64_t> lost;
      for (const std::int64_t slice : known.slices) {
        const auto of_slice = contained.find(slice);
        if (of_slice == contained.end() || !of_slice->second.contains(push)) lost.push_back(slice);
      }
      if (lost.empty()) continue;
      fault(fmt::format("shard {}'s push of clock {}, acknowledged to {}, is lost: slice{} {} {} not have it",
                        push.shard, push.clock, known.to, lost.size() == 1 ? "" : "s", fmt::join(lost, ", "),
                        lost.size() == 1 ? "does" : "do"));
    }
  }

  AuditResult result_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> owners_;  // by slice and epoch
  std::map<StateName, Made> made_;
  std::set<StateName> first_;
  std::map<std::int64_t, Ending> last_;  // by slice
  std::map<ShardClock, Acknowledged> acknowledged_;
};

}  // namespace

AuditResult check_audit(const std::vector<AuditFile>& files) {
  Audit audit;
  for (const AuditFile& file : files) audit.read(file);
  return audit.conclude();
}

std::vector<AuditFile> read_audit(const std::filesystem::path& folder) {
  std::vector<AuditFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    AuditFile file{.name = entry.path().stem().string(),
                   .text = {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}};
    if (!in) fail_input("cannot read the audit log '{}'", entry.path().string());
    files.push_back(std::move(file));
  }
  if (error) fail_input("cannot read the folder '{}': {}", folder.string(), error.message());
  if (files.empty())
    fail_input("'{}' has no audit logs: 'trifold server' and 'trifold worker' write them with --audit",
               folder.string());
  std::ranges::sort(files, {}, &AuditFile::name);
  return files;
}

}  // namespace trifold
