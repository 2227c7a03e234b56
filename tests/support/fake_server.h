// Servers for the tests of what speaks to them: synchronous rounds with plain SGD, whose servers share one memory, so
// that a change of servers needs no handover. They lose answers and refuse when they are told to.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "parallel/servers/client/request.h"
#include "parallel/servers/slices/gradient_codec.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/view.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold::test {

// What all servers of a test hold.
struct FakeModel {
  struct HeldSlice {
    std::vector<float> values;
    std::int64_t round = 0;
    std::map<std::int64_t, std::map<int, std::vector<float>>> pushes;  // clock -> shard -> values
  };

  FakeModel(std::vector<ServedTensor> tensors, int shards, std::int64_t slice_elements);
  float value(int tensor, std::int64_t element);  // as it is now

  const std::vector<ServedTensor> tensors;
  const std::vector<Slice> slices;
  const int shards;
  std::mutex mutex;
  std::vector<HeldSlice> held;
  int repeated = 0;  // slices that were pushed again
};

class FakeServer {
 public:
  FakeServer(FakeModel& model, const std::string& id);
  ~FakeServer();

  const MemberInfo& info() const { return info_; }
  void set_view(const View& view);

  std::atomic<int> lost_answers = 0;             // so many are not sent
  std::atomic<bool> mute = false;                // answers nothing, and takes nothing
  void refuse(const std::string& code);          // everything; empty: nothing
  int pushes() const { return pushes_.load(); }  // messages that came
  int refusals() const { return refusals_.load(); }

 private:
  void run();
  std::optional<Message> refusal_of(const Message& request);
  ServerStatus status();
  bool try_answer(PeerId peer, Message& request);  // true: nothing is left of it
  void take_push(const Message& push);
  void answer(PeerId peer, const Message& message);

  FakeModel& model_;
  Mailbox mailbox_;
  MemberInfo info_;
  std::mutex mutex_;  // of what follows
  std::shared_ptr<const SlicePlacement> placement_;
  std::string refuse_;
  std::atomic<int> pushes_ = 0;
  std::atomic<int> refusals_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// A settled view of these servers.
View view_of(std::int64_t epoch, const std::vector<FakeServer*>& servers);

}  // namespace trifold::test
