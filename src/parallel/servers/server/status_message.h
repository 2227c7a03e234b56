// What a server says about itself when it is asked for its status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/servers/wire/message.h"

namespace trifold {

struct SliceStatus {
  int slice = 0;
  std::int64_t epoch = 0;  // in which its owner came to own it
  std::int64_t version = 0;
  std::vector<std::int64_t> applied = {};  // by shard: clocks
  std::vector<std::int64_t> cuts = {};     // that are kept
};

struct ServerStatus {
  std::string server = {};            // its id
  std::vector<std::string> ids = {};  // that it has had, if it was given up and came back; the last is `server`
  std::int64_t epoch = 0;
  std::int64_t view = 0;                 // version that it goes by
  bool settled = false;                  // all slices that it owns are here
  bool safe = false;                     // and on their replicas
  std::vector<SliceStatus> slices = {};  // that it owns; before it serves, all that it holds
};

Message message_of(const ServerStatus& status, std::uint64_t id);
// A JSON exception where something is missing: the message may come from anybody.
ServerStatus status_from(const Message& answer);

}  // namespace trifold
