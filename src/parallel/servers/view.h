// What all members of a cluster go by: who serves, who works on which shard of the data, and when it ends. The manager
// that leads writes it, as a text in the registry under kViewName; everybody follows the newest version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trifold {

inline constexpr const char* kViewName = "view";
inline constexpr const char* kJobName = "job";             // the resolved job, JSON
inline constexpr const char* kProgressName = "progress";   // where the leading manager's training stands, for the next
inline constexpr const char* kDoneName = "done";           // for a minute after a job: managers that stand by may go
inline constexpr const char* kLeaderName = "leader";       // MemberInfo of the manager that leads; with its lease
inline constexpr const char* kMembersPrefix = "members/";  // + id: MemberInfo of who is alive; with its lease

struct MemberInfo {
  std::string id = {};          // never used again by another
  std::string role = {};        // "server", "worker", "manager"
  std::string address = {};     // where it listens; of workers: where it sums for others of its host, or empty
  std::string public_key = {};  // with credentials
  std::string host = {};        // of workers: those that say the same share a machine
  // Of servers that come back: the View::begun_by of the job whose slices they still hold; empty: they hold nothing.
  std::string holds = {};

  bool operator==(const MemberInfo&) const = default;
};

std::string to_text(const MemberInfo& member);
MemberInfo member_from_text(const std::string& text);

// A worker through which all of its host speak to the servers: what they push goes on as one.
struct HeadOfHost {
  MemberInfo member = {};
  std::vector<std::string> workers = {};  // ids, its own among them

  bool operator==(const HeadOfHost&) const = default;
};

// The last epoch in which pushes were taken, and by whom: what was acknowledged then only they can have.
struct ServedEpoch {
  std::int64_t epoch = 0;                 // 0: there was none yet
  bool first = false;                     // none was before it: it began with the first values
  std::vector<std::string> servers = {};  // ids

  bool operator==(const ServedEpoch&) const = default;
};

struct View {
  std::int64_t version = 0;
  // Grows when the set of servers changes. Servers take pushes, pulls and replicas of their own epoch only, so that
  // what an old owner still says counts for nothing.
  std::int64_t epoch = 0;
  // False: servers of this epoch have stopped and say what they hold (status); the next version, settled, will say from
  // whom each slice's state comes.
  bool settled = false;
  // All slices of this epoch are with their owners and replicas, so that copies from before it are needed no more.
  bool safe = false;
  MemberInfo leader = {};  // the manager that wrote it
  // The id of the manager that the job began with. Another one's: it was begun anew, from its last checkpoint, and what
  // members know of before counts for nothing.
  std::string begun_by = {};
  std::vector<MemberInfo> servers = {};
  ServedEpoch served = {};                      // this one, once it is settled
  std::vector<std::string> sources = {};        // by slice: id of the server (or manager) that has its newest state
  std::vector<std::string> workers = {};        // ids
  std::vector<std::string> shard_owners = {};   // by shard of the data: a worker's id; empty: nobody yet
  std::vector<HeadOfHost> heads = {};           // workers that have none speak to the servers themselves
  std::optional<std::int64_t> stop_clock = {};  // workers end when their shards have done so many clocks
  std::string stopped_by = {};
  bool over = false;  // everybody may go

  std::vector<std::string> server_ids() const;
  bool has(const MemberInfo& member) const;                           // a server or worker
  const MemberInfo* head_of(const std::string& worker) const;         // null: it has none
  std::vector<int> shards_through(const std::string& head_id) const;  // of all its workers, rising
  bool operator==(const View&) const = default;
};

std::string to_text(const View& view);
View view_from_text(const std::string& text);

}  // namespace trifold
