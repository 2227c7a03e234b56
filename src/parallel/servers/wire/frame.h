// How a message lies on the wire: a head (a header of fixed length, then the fields as CBOR) and the payload, which may
// be compressed, or lie elsewhere. A checksum is over all of it. What comes in may be from anybody: reading it takes no
// more memory than its limits say, and what is wrong with it is an answer, not an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/servers/wire/message.h"

namespace trifold {

// Grows with any change that an older program would misread. The first six bytes of a head stay what they are.
inline constexpr std::uint16_t kFrameVersion = 1;

// The header, little-endian: magic u32, version u16, kind u16, flags u32, bytes of fields u32, of the payload as it is
// sent u64, of the payload u64, checksum u64.
inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kLargestFields = std::size_t{4} << 20;
inline constexpr std::size_t kLargestHead = kHeaderBytes + kLargestFields;

struct Frame {
  std::vector<std::byte> head = {};
  Payload payload = {};  // the message's own bytes, not copied, unless compressed

  std::size_t bytes() const { return head.size() + payload.size(); }
};

// Of a payload that comes about piece by piece: each is best added right after it was written, while caches have it.
class PayloadChecksum {
 public:
  PayloadChecksum();
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  struct Free {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Free> state_;
};

enum class PayloadForm {
  plain,
  compressed,  // where that makes it smaller
  elsewhere,   // plain; the receiver finds it by what is sent in its place (payload_sharing.h)
};

// Fails if the fields are no object or too large.
Frame encode_frame(const Message& message, PayloadForm form = PayloadForm::plain);

struct FrameReading {
  std::optional<Message> message = {};
  std::string why_not = {};  // ... was it refused
};

// Whether this is the head of a frame whose payload is elsewhere.
bool says_elsewhere(std::span<const std::byte> head);

// `payload`: as it was sent, or where it was found. `largest`: bytes of a payload, compressed or not.
FrameReading decode_frame(std::span<const std::byte> head, const Payload& payload, std::size_t largest);

}  // namespace trifold
