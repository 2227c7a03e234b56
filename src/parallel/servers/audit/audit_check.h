// Reads the audit logs of a job that has ended, and proves that what servers acknowledged is in the model, once. For
// every slice the last version is followed back, version by version and from owner to owner, to the values the job
// began with. What links them is not what anybody says of the others but the digest of the state itself: the version a
// server began with must be one that somebody made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trifold {

struct AuditFile {
  std::string name;
  std::string text;  // a last line that does not end was never acted upon: it does not count
};

struct AuditResult {
  std::int64_t members = 0;  // files
  std::int64_t slices = 0;
  std::int64_t versions = 0;      // of all slices, from the first values to the last
  std::int64_t owners = 0;        // that the slices had one after the other, all together
  std::int64_t acknowledged = 0;  // (slice, shard, clock), each counted once
  std::int64_t late = 0;          // acknowledged as not needed
  // What is lost, doubled or cannot be proved, a sentence each; the first of them, if they are many.
  std::vector<std::string> faults = {};
  std::int64_t more_faults = 0;
};

AuditResult check_audit(const std::vector<AuditFile>& files);
// All *.jsonl files of a folder. An Error where there are none.
std::vector<AuditFile> read_audit(const std::filesystem::path& folder);

}  // namespace trifold
