#include "insight/metrics/tensorboard_event.h"

#include <bit>

#include "insight/metrics/crc32c.h"

namespace trifold {
namespace {

template <class Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Field numbers of Event, Summary, Summary.Value, Summary.Image, HistogramProto and SessionLog in TensorFlow's
// event.proto, summary.proto and histogram.proto.
enum EventField : std::uint32_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField : std::uint32_t { kValue = 1 };
enum ValueField : std::uint32_t { kTag = 1, kSimpleValue = 2, kImage = 4, kHistogram = 5 };
enum ImageField : std::uint32_t { kHeight = 1, kWidth = 2, kColorspace = 3, kEncodedImage = 4 };
enum HistogramField : std::uint32_t {
  kMin = 1,
  kMax = 2,
  kNum = 3,
  kSum = 4,
  kSumSquares = 5,
  kBucketLimits = 6,
  kBuckets = 7
};
enum SessionLogField : std::uint32_t { kStatus = 1 };
constexpr std::uint64_t kSessionStart = 1;

// A protobuf message being written, one field after the other.
class Message {
 public:
  Message& integer(std::uint32_t field, std::uint64_t value) {
    key(field, WireType::varint);
    varint(value);
    return *this;
  }
  Message& real(std::uint32_t field, double value) {
    key(field, WireType::fixed64);
    put_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(std::uint32_t field, float value) {
    key(field, WireType::fixed32);
    put_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  Message& reals(std::uint32_t field, std::span<const double> values) {  // packed
    key(field, WireType::length_delimited);
    varint(values.size() * sizeof(double));
    for (const double value : values) put_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& bytes(std::uint32_t field, std::string_view value) {
    key(field, WireType::length_delimited);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& encoded() const { return bytes_; }

 private:
  enum class WireType : std::uint32_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

  void key(std::uint32_t field, WireType type) { varint((field << 3) | static_cast<std::uint32_t>(type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7F) | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

Message event_at(EventTime time) {
  Message event;
  event.real(kWallTime, time.wall_time_s).integer(kStep, static_cast<std::uint64_t>(time.step));
  return event;
}

// TFRecord stores CRCs masked, since a CRC of bytes that hold their own CRC is weak.
std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace

std::string encode_version_event(double wall_time_s) {
  return Message().real(kWallTime, wall_time_s).bytes(kFileVersion, "brain.Event:2").encoded();
}

std::string encode_scalars_event(EventTime time, std::span<const Metric> metrics) {
  Message summary;
  for (const Metric& metric : metrics) {
    Message value;
    value.bytes(kTag, metric.name).real(kSimpleValue, static_cast<float>(metric.value));
    summary.bytes(kValue, value.encoded());
  }
  return event_at(time).bytes(kSummary, summary.encoded()).encoded();
}

std::string encode_histograms_event(EventTime time, std::span<const NamedHistogram> histograms) {
  Message summary;
  for (const auto& [name, histogram] : histograms) {
    Message message;
    message.real(kMin, histogram.least)
        .real(kMax, histogram.most)
        .real(kNum, static_cast<double>(histogram.count))
        .real(kSum, histogram.sum)
        .real(kSumSquares, histogram.sum_of_squares)
        .reals(kBucketLimits, histogram.limits)
        .reals(kBuckets, histogram.counts);
    summary.bytes(kValue, Message().bytes(kTag, name).bytes(kHistogram, message.encoded()).encoded());
  }
  return event_at(time).bytes(kSummary, summary.encoded()).encoded();
}

std::string encode_images_event(EventTime time, std::span<const NamedImage> images) {
  Message summary;
  for (const NamedImage& image : images) {
    Message message;
    message.integer(kHeight, static_cast<std::uint64_t>(image.height))
        .integer(kWidth, static_cast<std::uint64_t>(image.width))
        .integer(kColorspace, static_cast<std::uint64_t>(image.channels))  // their numbers of the two are these
        .bytes(kEncodedImage, {reinterpret_cast<const char*>(image.png.data()), image.png.size()});
    summary.bytes(kValue, Message().bytes(kTag, image.name).bytes(kImage, message.encoded()).encoded());
  }
  return event_at(time).bytes(kSummary, summary.encoded()).encoded();
}

std::string encode_restart_event(EventTime time) {
  const Message session = Message().integer(kStatus, kSessionStart);
  return event_at(time).bytes(kSessionLog, session.encoded()).encoded();
}

std::string frame_record(std::string_view payload) {
  std::string record;
  put_little_endian(record, static_cast<std::uint64_t>(payload.size()));
  put_little_endian(record, masked_crc32c(record));
  record += payload;
  put_little_endian(record, masked_crc32c(payload));
  return record;
}

}  // namespace trifold
