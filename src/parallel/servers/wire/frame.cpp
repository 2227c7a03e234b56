#include "parallel/servers/wire/frame.h"

#include <cstring>
#include <memory>

#ifdef TRIFOLD_XXHASH_CHOOSES_VECTORS
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif
#include <zstd.h>

#include "core/error.h"
#include "parallel/servers/wire/cbor_shape.h"

namespace trifold {
namespace {

constexpr std::uint32_t kMagic = 0x53504654;  // "TFPS"
// Flags.
constexpr std::uint32_t kCompressed = 1;
constexpr std::uint32_t kElsewhere = 2;
constexpr std::size_t kChecksumAt = kHeaderBytes - sizeof(std::uint64_t);
constexpr std::size_t kWorthCompressing = 256;  // bytes
constexpr int kCompressionLevel = 1;            // the wire is quicker than any higher one

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kFrameVersion;
  std::uint16_t kind = 0;
  std::uint32_t flags = 0;
  std::uint32_t fields_bytes = 0;
  std::uint64_t sent_bytes = 0;   // of the payload, as it is sent
  std::uint64_t plain_bytes = 0;  // of the payload
  std::uint64_t checksum = 0;

  template <class Self, class Visit>
  static void visit(Self& self, Visit&& each) {
    each(self.magic);
    each(self.version);
    each(self.kind);
    each(self.flags);
    each(self.fields_bytes);
    each(self.sent_bytes);
    each(self.plain_bytes);
    each(self.checksum);
  }
};

void write(const Header& header, std::byte* at) {
  Header::visit(header, [&](auto value) {
    for (std::size_t i = 0; i < sizeof value; ++i) *at++ = static_cast<std::byte>(value >> 8 * i);
  });
}

Header read(const std::byte* at) {
  Header header;
  Header::visit(header, [&](auto& value) {
    value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i)
      value =
          static_cast<std::remove_reference_t<decltype(value)>>(value | std::to_integer<std::uint64_t>(*at++) << 8 * i);
  });
  return header;
}

std::uint64_t checksum_of(std::span<const std::byte> payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

// Over the header up to the checksum, the fields and the payload, whose own it is given.
std::uint64_t checksum(std::span<const std::byte> head, std::uint64_t of_payload) {
  const XXH64_hash_t sum = XXH3_64bits_withSeed(head.data() + kHeaderBytes, head.size() - kHeaderBytes, of_payload);
  return XXH3_64bits_withSeed(head.data(), kChecksumAt, sum);
}

// Null: it would not become smaller.
std::optional<Payload> compressed(std::span<const std::byte> plain) {
  if (plain.size() < kWorthCompressing) return std::nullopt;
  const std::size_t room = plain.size() - 1;
  const auto bytes = std::make_shared_for_overwrite<std::byte[]>(room);
  const std::size_t used = ZSTD_compress(bytes.get(), room, plain.data(), plain.size(), kCompressionLevel);
  if (ZSTD_isError(used) != 0) return std::nullopt;
  return Payload(bytes, {bytes.get(), used});
}

// Null: they are no compressed form of so many bytes. No more memory than those is taken.
std::optional<Payload> decompressed(std::span<const std::byte> sent, std::size_t plain_bytes) {
  if (ZSTD_getFrameContentSize(sent.data(), sent.size()) != plain_bytes) return std::nullopt;
  const auto bytes = std::make_shared_for_overwrite<std::byte[]>(plain_bytes);
  const std::size_t got = ZSTD_decompress(bytes.get(), plain_bytes, sent.data(), sent.size());
  if (ZSTD_isError(got) != 0 || got != plain_bytes) return std::nullopt;
  return Payload(bytes, {bytes.get(), plain_bytes});
}

bool is_known(MessageKind kind) {
  switch (kind) {
    case MessageKind::refusal:
    case MessageKind::push:
    case MessageKind::push_answer:
    case MessageKind::pull:
    case MessageKind::pull_answer:
    case MessageKind::status:
    case MessageKind::status_answer:
    case MessageKind::replicate:
    case MessageKind::replicate_answer:
    case MessageKind::fetch:
    case MessageKind::fetch_answer:
    case MessageKind::release:
    case MessageKind::distances:
    case MessageKind::choice:
    case MessageKind::registry:
    case MessageKind::registry_answer:
    case MessageKind::report:
    case MessageKind::share:
    case MessageKind::share_answer:
      return true;
  }
  return false;
}

// What is wrong with the header as such; empty: nothing.
std::string fault_of(const Header& header, std::size_t head_bytes, std::size_t payload_bytes, std::size_t largest) {
  if (header.magic != kMagic) return "it is no message of Trifold's";
  if (header.version != kFrameVersion)
    return fmt::format("it is of version {}, and this program speaks version {}", header.version, kFrameVersion);
  if (header.fields_bytes > kLargestFields || header.fields_bytes != head_bytes - kHeaderBytes)
    return fmt::format("its head has {} bytes of fields and says {}", head_bytes - kHeaderBytes, header.fields_bytes);
  if (header.sent_bytes != payload_bytes)
    return fmt::format("its payload has {} bytes and its head says {}", payload_bytes, header.sent_bytes);
  if (header.plain_bytes > largest)
    return fmt::format("its payload is of {} bytes, and {} are allowed", header.plain_bytes, largest);
  if (header.flags != 0 && header.flags != kCompressed && header.flags != kElsewhere)
    return fmt::format("it has unknown flags {:#x}", header.flags);
  if (header.flags != kCompressed && header.plain_bytes != header.sent_bytes) return "its payload's lengths contradict";
  if (!is_known(static_cast<MessageKind>(header.kind))) return fmt::format("it is of unknown kind {}", header.kind);
  return {};
}

}  // namespace

struct PayloadChecksum::State {
  XXH3_state_t* sum = XXH3_createState();
};

PayloadChecksum::PayloadChecksum() : state_(new State) {
  XXH3_64bits_reset(state_->sum);
}

void PayloadChecksum::Free::operator()(State* state) const {
  XXH3_freeState(state->sum);
  delete state;
}

void PayloadChecksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->sum, bytes.data(), bytes.size());
}

std::uint64_t PayloadChecksum::value() const {
  return XXH3_64bits_digest(state_->sum);
}

Frame encode_frame(const Message& message, PayloadForm form) {
  TRIFOLD_CHECK(message.fields.is_object(), "the fields of a message are an object");
  Frame frame{.head = std::vector<std::byte>(kHeaderBytes), .payload = message.payload};
  Header header{.kind = static_cast<std::uint16_t>(message.kind), .plain_bytes = message.payload.size()};
  if (form == PayloadForm::elsewhere) header.flags = kElsewhere;
  if (form == PayloadForm::compressed)
    if (std::optional<Payload> smaller = compressed(message.payload.bytes())) {
      frame.payload = std::move(*smaller);
      header.flags = kCompressed;
    }
  std::vector<std::uint8_t> fields = nlohmann::json::to_cbor(message.fields);
  if (fields.size() > kLargestFields)
    fail_runtime("a message's fields take {} bytes, and {} are allowed", fields.size(), kLargestFields);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(fields));
  frame.head.insert(frame.head.end(), bytes.begin(), bytes.end());
  header.fields_bytes = static_cast<std::uint32_t>(fields.size());
  header.sent_bytes = frame.payload.size();
  write(header, frame.head.data());
  header.checksum =
      checksum(frame.head, frame.payload.checksum() ? *frame.payload.checksum() : checksum_of(frame.payload.bytes()));
  write(header, frame.head.data());
  return frame;
}

bool says_elsewhere(std::span<const std::byte> head) {
  if (head.size() < kHeaderBytes) return false;
  const Header header = read(head.data());
  return header.magic == kMagic && header.version == kFrameVersion && header.flags == kElsewhere;
}

FrameReading decode_frame(std::span<const std::byte> head, const Payload& payload, std::size_t largest) {
  const auto refuse = [](std::string why) { return FrameReading{.why_not = std::move(why)}; };
  if (head.size() < kHeaderBytes) return refuse(fmt::format("its head has only {} bytes", head.size()));
  const Header header = read(head.data());
  if (std::string fault = fault_of(header, head.size(), payload.size(), largest); !fault.empty())
    return refuse(std::move(fault));
  if (checksum(head, checksum_of(payload.bytes())) != header.checksum) return refuse("its checksum is wrong");

  const std::span<const std::byte> fields = head.subspan(kHeaderBytes);
  if (const char* fault = fault_of_cbor(fields); fault != nullptr) return refuse(fault);
  const auto* first = reinterpret_cast<const std::uint8_t*>(fields.data());
  Message message{.kind = static_cast<MessageKind>(header.kind),
                  .fields = nlohmann::json::from_cbor(first, first + fields.size(), true, false),
                  .payload = payload};
  if (!message.fields.is_object()) return refuse("its fields are no object");
  if (header.flags == kCompressed) {
    std::optional<Payload> plain = decompressed(payload.bytes(), static_cast<std::size_t>(header.plain_bytes));
    if (!plain) return refuse("its payload cannot be decompressed");
    message.payload = std::move(*plain);
  }
  return {.message = std::move(message)};
}

}  // namespace trifold
