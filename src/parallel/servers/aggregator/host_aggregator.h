// A worker's service to the others of its host: it stands between them and the servers, so that what they push goes out
// as one and what they pull comes in once. It listens like a server and asks like a client, on a thread of its own; the
// views say whose head it is. What it holds is lost with it: workers send again what was not acknowledged, to the next
// head or to the servers, who take each push once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/servers/participation.h"
#include "parallel/servers/rules/aggregation.h"
#include "parallel/servers/slices/slice.h"
#include "parallel/servers/view.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct HostAggregatorOptions {
  std::string worker = {};  // the id of whose head it is
  std::vector<ServedTensor> tensors = {};
  std::int64_t slice_elements = 0;  // as clients have it
  Participation participation = {};
  AggregationArgs rule = {};
  bool half = false;            // towards the servers: 16 bits a number
  MailboxOptions mailbox = {};  // with an address to listen on; only this host's workers call
  std::chrono::milliseconds patience = std::chrono::seconds(2);  // with servers, until they are asked again
};

class HostAggregator {
 public:
  explicit HostAggregator(HostAggregatorOptions options);
  ~HostAggregator();  // stop()
  HostAggregator(const HostAggregator&) = delete;
  HostAggregator& operator=(const HostAggregator&) = delete;

  const std::string& address() const;
  void set_view(const View& view);  // from any thread; the newest counts

  // Bytes to and from servers, of frames.
  struct Traffic {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  Traffic traffic() const;

  bool failed() const;  // its thread has ended: this host's workers wait in vain
  void check() const;   // throws why
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trifold
