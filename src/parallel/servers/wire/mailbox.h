// All connections of one member of a cluster: it listens on one address, or on none, and speaks to others at theirs.
// ZeroMQ carries the messages; with keys every connection is authenticated and encrypted (CURVE). One thread uses it,
// but for wake(). Whoever is not authorised, speaks another version or sends garbage is refused, logged and forgotten:
// nothing of it is received here.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/wire/message.h"

namespace trifold {

// A connection. Those that others made to here come with the first message; never the same number twice.
using PeerId = std::uint64_t;

struct KeyPair {
  std::string public_key;  // Z85, 40 letters
  std::string secret_key;
};

// What a member proves itself by, and whom it believes.
struct Credentials {
  KeyPair own = {};
  std::vector<std::string> trusted = {};  // public keys of all members
};

struct MailboxOptions {
  std::string listen = {};  // "tcp://10.0.0.1:5555", port * for any free one; empty: nobody can call here
  std::optional<Credentials> credentials = {};          // none: plain, and then only loopback addresses are taken
  std::size_t largest_message = std::size_t{64} << 20;  // bytes; a peer that sends more is cut off
  int queued_messages = 1000;  // to each peer, beyond which send() fails; of each that sends, 16 at most wait here
  bool compress = false;       // payloads by zstd, where that makes them smaller
  // Without credentials and compression: payloads to processes of this user are put into memory that they map
  // (payload_sharing.h). Of so many blocks, as long as long messages are, and taken from the system as they are used.
  // 0: all go by TCP.
  std::size_t shared_blocks = 128;
  std::chrono::milliseconds handshake = std::chrono::seconds(5);  // in which a new peer must have proved itself
};

struct Received {
  PeerId from = 0;
  Message message;
};

struct MailboxCounts {
  std::uint64_t sent_bytes = 0;      // of frames
  std::uint64_t shared_bytes = 0;    // of those, of payloads that were put into shared memory
  std::uint64_t received_bytes = 0;  // of those that were taken
  // Frames, handshakes and messages without end; who is cut off for a part too large is not counted.
  std::uint64_t refused = 0;
};

class Mailbox {
 public:
  explicit Mailbox(MailboxOptions options);
  // What was sent a moment ago still goes, for at most a second. It is lost, though, as far as a peer has not read it
  // when that next says something to this one: who needs to know that it arrived waits for an answer.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  const std::string& address() const;  // it listens on, with the port; empty: none

  // Returns at once; the connection comes about, and comes back, by itself. `public_key` is the other's, with
  // credentials: it must be a trusted one.
  PeerId connect(const std::string& address, const std::string& public_key = {});
  void disconnect(PeerId peer);

  // False: the peer is gone, or does not take messages as fast as they are sent (its queue is full).
  bool send(PeerId to, const Message& message);
  // Null: nothing came in that time, or wake() was called.
  std::optional<Received> receive(std::chrono::milliseconds timeout);
  // From any thread: receive() returns, now or when it is called next.
  void wake();

  const MailboxCounts& counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trifold
