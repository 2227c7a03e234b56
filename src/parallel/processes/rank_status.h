// What a rank is doing, as the others hear of it when a job does not come forward.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trifold {

struct RankStatus {
  struct Waiting {
    std::string what;        // "all_reduce of 40 bytes"
    std::string group;       // by its name, of a collective
    std::int64_t call = 0;   // the group's, counted from 1
    std::vector<int> ranks;  // that must arrive, this one too
  };
  std::int64_t step = 0;                      // updates done
  std::optional<Waiting> waiting;             // none: it computes, or hangs elsewhere
  std::map<std::string, std::int64_t> calls;  // of each group, so far
};

// Of the ranks of one process.
std::string encode_statuses(std::span<const RankStatus> statuses);
std::vector<RankStatus> decode_statuses(const std::string& text);

// One sentence: who waits for whom, and the last step of each. A rank that did not answer has no status; `last_steps`
// are what each said before.
std::string stall_report(std::span<const std::optional<RankStatus>> ranks, std::span<const std::int64_t> last_steps,
                         double seconds);

}  // namespace trifold
