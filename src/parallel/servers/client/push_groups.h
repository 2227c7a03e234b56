// Pushes on their way into messages: slices that go to one server, of the same shard and clock, travel together until
// there are enough of them. What is encoded is written where it is sent from.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "parallel/servers/client/request.h"
#include "parallel/servers/wire/byte_pool.h"
#include "parallel/servers/wire/frame.h"

namespace trifold {

// Encodings of one server, one after the other.
class PushGroup {
 public:
  // `like` says what kind of push it is; `room` is about how many bytes will come. The pool outlives the group.
  PushGroup(const Request& like, const BytePool& pool, std::size_t room)
      : request_(like), pool_(&pool), bytes_(pool.take(room)) {}

  // `encode` appends to the bytes it is given.
  template <class Encode>
  void add(SliceWork work, const Encode& encode) {
    const std::size_t before = bytes_.size();
    encode(bytes_);
    checksum_.add(std::span(bytes_).subspan(before));
    request_.work.push_back(std::move(work));
    ends_.push_back(bytes_.size());
  }
  bool takes(const PushGroup& other) const;  // both are of the same push
  void append(PushGroup other);
  std::size_t size() const { return bytes_.size(); }

  Request close() &&;

 private:
  Request request_;
  const BytePool* pool_;
  std::vector<std::byte> bytes_;
  PayloadChecksum checksum_;
  std::vector<std::size_t> ends_;  // of the slices' encodings
};

// Groups that wait for more.
class PushGroups {
 public:
  // A group of `enough` bytes goes. What is to go now is added to `go`: at most the one that waited and could not take
  // it, and the one it has filled.
  void add(int server, PushGroup group, std::size_t enough, std::vector<Request>& go);
  void close_all(std::vector<Request>& go);

 private:
  std::map<int, PushGroup> waiting_;  // by server
};

}  // namespace trifold
