// What logs prove, and what they give away: each case is a small job written down by hand.
#include "parallel/servers/audit/audit_check.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

// Each of them, in this order, is a part of what was found.
void expect_faults(const AuditResult& result, const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& fault : result.faults) all += fault + "\n";
  ASSERT_EQ(result.faults.size(), parts.size()) << all;
  for (std::size_t i = 0; i < parts.size(); ++i)
    EXPECT_NE(result.faults[i].find(parts[i]), std::string::npos) << result.faults[i] << "\nand not: " << parts[i];
}

// Lines of a log. States are named by letters.
class Log {
 public:
  explicit Log(std::string member) : file_{std::move(member), {}} {}

  Log& owns(int slice, int version, const std::string& state, int epoch, bool first = false) {
    return add(R"({"own":%d,"version":%d,"digest":"%s","epoch":%d,"from":"who","first":%s})", slice, version,
               state.c_str(), epoch, first ? "true" : "false");
  }
  Log& makes(int slice, int version, const std::string& state, const std::string& pushes) {
    return add(R"({"slice":%d,"version":%d,"digest":"%s","pushes":%s})", slice, version, state.c_str(), pushes.c_str());
  }
  Log& ends(int slice, int version, const std::string& state, int epoch) {
    return add(R"({"final":%d,"version":%d,"digest":"%s","epoch":%d})", slice, version, state.c_str(), epoch);
  }
  Log& told(int shard, int clock, const std::string& slices, bool late = false) {
    return add(R"({"shard":%d,"clock":%d,"slices":%s%s})", shard, clock, slices.c_str(), late ? R"(,"late":true)" : "");
  }
  Log& unfinished(const std::string& text) {
    file_.text += text;
    return *this;
  }
  operator AuditFile() const { return file_; }  // NOLINT: a log is a file

 private:
  template <class... Args>
  Log& add(const char* format, Args... args) {
    std::array<char, 400> line{};
    std::snprintf(line.data(), line.size(), format, args...);
    file_.text += line.data();
    file_.text += '\n';
    return *this;
  }
  AuditFile file_;
};

// One slice, one shard, two clocks.
Log whole_server() {
  return Log("server-1")
      .owns(0, 1, "a", 1, true)
      .makes(0, 2, "b", "[[0,0]]")
      .makes(0, 3, "c", "[[0,1]]")
      .ends(0, 3, "c", 1);
}
Log whole_worker() {
  return Log("worker-1").told(0, 0, "[0]").told(0, 1, "[0]");
}

TEST(AuditCheckTest, AJobThatLostNothing) {
  const AuditResult result = check_audit({whole_server(), whole_worker()});
  expect_faults(result, {});
  EXPECT_EQ(result.members, 2);
  EXPECT_EQ(result.slices, 1);
  EXPECT_EQ(result.versions, 2);
  EXPECT_EQ(result.owners, 1);
  EXPECT_EQ(result.acknowledged, 2);
}

TEST(AuditCheckTest, AnAcknowledgedPushThatIsInNoVersionIsLost) {
  const AuditResult result = check_audit({whole_server(), whole_worker().told(0, 2, "[0]")});
  expect_faults(result, {"shard 0's push of clock 2, acknowledged to worker-1, is lost: slice 0 does not "
                         "have it"});
}

TEST(AuditCheckTest, AnAcknowledgedPushIsMissedInTheSliceThatLacksIt) {
  Log server = whole_server().owns(1, 1, "x", 1, true).makes(1, 2, "y", "[[0,0]]").ends(1, 2, "y", 1);
  const AuditResult result = check_audit({server, Log("worker-1").told(0, 0, "[0,1]").told(0, 1, "[0,1]")});
  expect_faults(result, {"clock 1, acknowledged to worker-1, is lost: slice 1 does not"});
}

// The replica goes on from the version that it has; what only the killed server had was told to nobody.
TEST(AuditCheckTest, AReplicaGoesOnForAKilledServer) {
  const Log killed = Log("server-1").owns(0, 1, "a", 1, true).makes(0, 2, "b", "[[0,0]]").makes(0, 3, "c", "[[0,1]]");
  const Log heir = Log("server-2").owns(0, 2, "b", 2).makes(0, 3, "d", "[[0,1],[1,1]]").ends(0, 3, "d", 2);
  expect_faults(check_audit({killed, heir, whole_worker()}), {});
  EXPECT_EQ(check_audit({killed, heir}).owners, 2);
  // Had it been told, it would be lost.
  const Log forgetful = Log("server-2").owns(0, 2, "b", 2).makes(0, 3, "d", "[[1,1]]").ends(0, 3, "d", 2);
  expect_faults(check_audit({killed, forgetful, whole_worker()}),
                {"push of clock 1, acknowledged to worker-1, is lost"});
}

TEST(AuditCheckTest, AVersionThatIsMadeAgainFromTheSamePushesIsTheSame) {
  const Log killed = Log("server-1").owns(0, 1, "a", 1, true).makes(0, 2, "b", "[[0,0]]").makes(0, 3, "c", "[[0,1]]");
  const Log heir = Log("server-2").owns(0, 2, "b", 2).makes(0, 3, "c", "[[0,1]]").ends(0, 3, "c", 2);
  expect_faults(check_audit({killed, heir, whole_worker()}), {});
  const Log other = Log("server-2").owns(0, 2, "b", 2).makes(0, 3, "c", "[[1,1]]").ends(0, 3, "c", 2);
  expect_faults(check_audit({killed, other}), {"from different pushes"});
}

TEST(AuditCheckTest, APushThatIsInASliceTwice) {
  const Log first = Log("server-1").owns(0, 1, "a", 1, true).makes(0, 2, "b", "[[0,0]]");
  const Log second = Log("server-2").owns(0, 2, "b", 2).makes(0, 3, "c", "[[0,0]]").ends(0, 3, "c", 2);
  expect_faults(check_audit({first, second}), {"shard 0's push of clock 0 is in slice 0 twice"});
}

// Numbers that changed on their way, or a log that is missing.
TEST(AuditCheckTest, AVersionThatNobodyMadeProvesNothing) {
  const Log first = Log("server-1").owns(0, 1, "a", 1, true).makes(0, 2, "b", "[[0,0]]");
  const Log second = Log("server-2").owns(0, 2, "B", 2).makes(0, 3, "c", "[[0,1]]").ends(0, 3, "c", 2);
  const AuditResult result = check_audit({first, second, whole_worker()});
  expect_faults(result, {"version 2 of slice 0, which server-2 went on from, was made by nobody",
                         "push of clock 0, acknowledged to worker-1, is lost"});
}

TEST(AuditCheckTest, ASliceWithTwoOwnersAtATime) {
  const Log other = Log("server-2").owns(0, 2, "b", 1);
  expect_faults(check_audit({whole_server(), other}), {"slice 0 had two owners in epoch 1: server-1 and server-2"});
}

TEST(AuditCheckTest, TheLastOwnerOfTheNewestEpochHasTheLastWord) {
  const Log heir = Log("server-2").owns(0, 3, "c", 2).makes(0, 4, "d", "[[0,2]]").ends(0, 4, "d", 2);
  expect_faults(check_audit({heir, whole_server(), whole_worker().told(0, 2, "[0]")}), {});
}

TEST(AuditCheckTest, APushThatCameTooLateNeedNotBeThere) {
  const AuditResult result = check_audit({whole_server(), whole_worker().told(1, 0, "[0]", true)});
  expect_faults(result, {});
  EXPECT_EQ(result.late, 1);
}

// A process is killed within a line: it had not acted on it.
TEST(AuditCheckTest, AnUnfinishedLineWasNeverSaid) {
  expect_faults(check_audit({whole_server(), whole_worker().unfinished(R"({"shard":0,"clock":7,"slices":[0]})")}), {});
}

TEST(AuditCheckTest, ALineThatMakesNoSenseIsAFault) {
  expect_faults(check_audit({whole_server(), Log("worker-1").unfinished("{}\n[1]\nx\n")}),
                {"line 1 of worker-1", "line 2 of worker-1", "line 3 of worker-1"});
  expect_faults(check_audit({whole_server(), Log("server-2").makes(0, 2, "b", "[[0,0]]")}),
                {"slice 0 changes, which it does not own"});
  expect_faults(check_audit({whole_server().makes(0, 9, "z", "[]")}), {"follows version 3"});
  expect_faults(check_audit({Log("server-1").owns(0, 1, "a", 1, true).ends(0, 2, "b", 1), whole_server()}),
                {"is not the one that it had", "two owners"});
}

TEST(AuditCheckTest, AJobThatHasNotEndedProvesNothing) {
  const Log server = Log("server-1").owns(0, 1, "a", 1, true).makes(0, 2, "b", "[[0,0]]");
  expect_faults(check_audit({server}), {"no server says how the job ended"});
}

TEST(AuditCheckTest, ManyFaultsAreCounted) {
  Log worker("worker-1");
  for (int clock = 100; clock < 150; ++clock) worker.told(0, clock, "[0]");
  const AuditResult result = check_audit({whole_server(), worker});
  EXPECT_EQ(result.faults.size() + static_cast<std::size_t>(result.more_faults), 50u);
  EXPECT_LT(result.faults.size(), 30u);
}

TEST(AuditCheckTest, ReadsTheLogsOfAFolder) {
  const testing::TemporaryDirectory folder;
  EXPECT_THROW(read_audit(folder.path()), Error);
  EXPECT_THROW(read_audit(folder.path() / "none"), Error);
  for (const AuditFile& file : {AuditFile(whole_worker()), AuditFile(whole_server())})
    std::ofstream(folder.path() / (file.name + ".jsonl")) << file.text;
  std::ofstream(folder.path() / "notes.txt") << "no log";
  const std::vector<AuditFile> files = read_audit(folder.path());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "server-1");
  EXPECT_EQ(files[1].text, AuditFile(whole_worker()).text);
}

}  // namespace
}  // namespace trifold
