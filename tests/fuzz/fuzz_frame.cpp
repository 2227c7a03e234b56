// A message off the wire: the input as a head, or as a head and a payload, as it is and with its lengths and checksum
// made right (so that what is behind them is reached). What is accepted means the same after a round trip.
#include <cstring>

#include <xxhash.h>

#include "only_errors.h"
#include "parallel/servers/wire/frame.h"

namespace trifold {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;

void read(std::span<const std::byte> head, std::span<const std::byte> payload) {
  const FrameReading reading = decode_frame(head, Payload(nullptr, payload), kLargest);
  if (reading.message.has_value() != reading.why_not.empty()) fuzz::report_defect("neither a message nor a reason");
  if (!reading.message) return;
  if (reading.message->payload.size() > kLargest) fuzz::report_defect("a payload larger than allowed");
  reading.message->fields.dump();  // throws if it cannot be written as JSON
  const Frame again = encode_frame(*reading.message, PayloadForm::compressed);
  const FrameReading second = decode_frame(again.head, again.payload, kLargest);
  if (!second.message || encode_frame(*second.message).head != encode_frame(*reading.message).head)
    fuzz::report_defect("a message changes when it is sent on");
}

template <class T>
void set(std::vector<std::byte>& head, std::size_t at, T value) {
  std::memcpy(head.data() + at, &value, sizeof value);
}

void read_signed(std::span<const std::byte> from, std::span<const std::byte> payload) {
  if (from.size() < kHeaderBytes) return;
  std::vector<std::byte> head(from.begin(), from.end());
  set(head, 0, std::uint32_t{0x53504654});
  set(head, 4, kFrameVersion);
  set(head, 12, static_cast<std::uint32_t>(head.size() - kHeaderBytes));
  set(head, 16, static_cast<std::uint64_t>(payload.size()));
  std::uint64_t sum = XXH3_64bits(payload.data(), payload.size());
  sum = XXH3_64bits_withSeed(head.data() + kHeaderBytes, head.size() - kHeaderBytes, sum);
  set(head, kHeaderBytes - sizeof sum, XXH3_64bits_withSeed(head.data(), kHeaderBytes - sizeof sum, sum));
  read(head, payload);
}

}  // namespace
}  // namespace trifold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  const std::span<const std::byte> bytes = fuzz::as_bytes(data, size);
  read(bytes, {});
  if (size < 2) return 0;
  // The first two bytes say where the head ends.
  const std::span<const std::byte> rest = bytes.subspan(2);
  const std::size_t cut = (data[0] | std::size_t{data[1]} << 8) % (rest.size() + 1);
  read(rest.first(cut), rest.subspan(cut));
  read_signed(rest.first(cut), rest.subspan(cut));
  return 0;
}
