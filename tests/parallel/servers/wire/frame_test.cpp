// Messages as bytes and back, and bytes that are no message: each is refused for its own reason.
#include "parallel/servers/wire/frame.h"

#include <cstring>

#include <gtest/gtest.h>
#include <xxhash.h>
#include <zstd.h>

#include "core/error.h"
#include "parallel/servers/wire/cbor_shape.h"

namespace trifold {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;

Message some_message() {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
  return {
      .kind = MessageKind::push,
      .fields = {{"id", 7}, {"slices", {1, 2, -3}}, {"name", "Größe"}, {"rate", 0.25}, {"late", false}, {"x", nullptr}},
      .payload = Payload::own(std::move(values))};
}

// The checksum of a changed frame, made right: what is behind it must hold by itself.
void sign(Frame& frame) {
  const std::span<const std::byte> payload = frame.payload.bytes();
  XXH64_hash_t sum = XXH3_64bits(payload.data(), payload.size());
  sum = XXH3_64bits_withSeed(frame.head.data() + kHeaderBytes, frame.head.size() - kHeaderBytes, sum);
  sum = XXH3_64bits_withSeed(frame.head.data(), kHeaderBytes - 8, sum);
  std::memcpy(frame.head.data() + kHeaderBytes - 8, &sum, sizeof sum);
}

template <class T>
void set(Frame& frame, std::size_t at, T value) {
  std::memcpy(frame.head.data() + at, &value, sizeof value);
}

std::string refusal_of(const Frame& frame) {
  const FrameReading reading = decode_frame(frame.head, frame.payload, kLargest);
  return reading.message ? "taken" : reading.why_not;
}

std::string refusal_of_fields(const std::vector<std::uint8_t>& cbor) {
  Frame frame = encode_frame({.kind = MessageKind::status});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(cbor));
  frame.head.resize(kHeaderBytes);
  frame.head.insert(frame.head.end(), bytes.begin(), bytes.end());
  set(frame, 12, static_cast<std::uint32_t>(cbor.size()));
  sign(frame);
  return refusal_of(frame);
}

TEST(FrameTest, ARoundTripKeepsAMessage) {
  for (const bool compress : {false, true}) {
    const Message sent = some_message();
    const Frame frame = encode_frame(sent, compress ? PayloadForm::compressed : PayloadForm::plain);
    const FrameReading reading = decode_frame(frame.head, frame.payload, kLargest);
    ASSERT_TRUE(reading.message) << reading.why_not;
    EXPECT_EQ(reading.message->kind, sent.kind);
    EXPECT_EQ(reading.message->fields, sent.fields);
    EXPECT_TRUE(std::ranges::equal(reading.message->payload.bytes(), sent.payload.bytes()));
    EXPECT_EQ(frame.payload.size() < sent.payload.size(), compress);
  }
}

TEST(FrameTest, PayloadsAreNotCopied) {
  const Message sent = some_message();
  const Frame frame = encode_frame(sent);
  EXPECT_EQ(frame.payload.bytes().data(), sent.payload.bytes().data());
  EXPECT_EQ(decode_frame(frame.head, frame.payload, kLargest).message->payload.bytes().data(),
            sent.payload.bytes().data());
}

TEST(FrameTest, WhatDoesNotBecomeSmallerIsSentAsItIs) {
  std::vector<std::uint32_t> noise(1000);
  std::uint32_t state = 1;
  for (std::uint32_t& value : noise) value = state = state * 1664525 + 1013904223;
  Message message = some_message();
  message.payload = Payload::own(std::move(noise));
  const Frame frame = encode_frame(message, PayloadForm::compressed);
  EXPECT_EQ(frame.payload.bytes().data(), message.payload.bytes().data());
  EXPECT_EQ(refusal_of(frame), "taken");
}

// Any one byte, changed, and any length, cut: nothing of it is taken.
TEST(FrameTest, EveryDamageIsNoticed) {
  const Frame whole = encode_frame(some_message());
  for (std::size_t i = 0; i < whole.head.size(); ++i) {
    Frame damaged = whole;
    damaged.head[i] ^= std::byte{0x10};
    EXPECT_NE(refusal_of(damaged), "taken") << "byte " << i;
    Frame cut = whole;
    cut.head.resize(i);
    EXPECT_NE(refusal_of(cut), "taken") << "cut at " << i;
  }
  Frame cut = whole;
  cut.payload = whole.payload.part(0, 3999);
  EXPECT_EQ(refusal_of(cut), "its payload has 3999 bytes and its head says 4000");
  std::vector<std::byte> bytes(whole.payload.bytes().begin(), whole.payload.bytes().end());
  bytes[17] ^= std::byte{1};
  Frame damaged = whole;
  damaged.payload = Payload::own(std::move(bytes));
  EXPECT_EQ(refusal_of(damaged), "its checksum is wrong");
}

TEST(FrameTest, AnotherVersionIsNamed) {
  Frame frame = encode_frame(some_message());
  set(frame, 4, std::uint16_t{kFrameVersion + 8});
  EXPECT_EQ(refusal_of(frame),
            fmt::format("it is of version {}, and this program speaks version {}", kFrameVersion + 8, kFrameVersion));
}

TEST(FrameTest, HeadersThatContradictAreRefused) {
  const auto changed = [](std::size_t at, auto value) {
    Frame frame = encode_frame(some_message());
    set(frame, at, value);
    sign(frame);
    return refusal_of(frame);
  };
  EXPECT_EQ(changed(0, std::uint32_t{0}), "it is no message of Trifold's");
  EXPECT_EQ(changed(6, std::uint16_t{999}), "it is of unknown kind 999");
  EXPECT_EQ(changed(8, std::uint32_t{6}), "it has unknown flags 0x6");
  EXPECT_EQ(changed(24, std::uint64_t{4001}), "its payload's lengths contradict");
  EXPECT_EQ(changed(24, std::uint64_t{kLargest + 1}), "its payload is of 1048577 bytes, and 1048576 are allowed");
  EXPECT_EQ(changed(24, ~std::uint64_t{0}), "its payload is of 18446744073709551615 bytes, and 1048576 are allowed");
  EXPECT_EQ(changed(8, std::uint32_t{1}), "its payload cannot be decompressed");
}

// Kilobytes that claim to be little and become a gigabyte, or say so and lie.
TEST(FrameTest, BombsAreRefused) {
  const std::vector<std::byte> zeros(std::size_t{64} << 20);
  std::vector<std::byte> bomb(std::size_t{1} << 16);
  bomb.resize(ZSTD_compress(bomb.data(), bomb.size(), zeros.data(), zeros.size(), 1));
  ASSERT_LT(bomb.size(), kLargest);
  const auto with_size = [&](std::uint64_t said) {
    Frame frame = encode_frame({.kind = MessageKind::push, .payload = Payload::own(bomb)});
    set(frame, 8, std::uint32_t{1});
    set(frame, 24, said);
    sign(frame);
    return refusal_of(frame);
  };
  EXPECT_EQ(with_size(zeros.size()), "its payload is of 67108864 bytes, and 1048576 are allowed");
  EXPECT_EQ(with_size(1000), "its payload cannot be decompressed");
  EXPECT_EQ(with_size(kLargest), "its payload cannot be decompressed");
}

TEST(FrameTest, HostileFieldsAreRefused) {
  EXPECT_EQ(refusal_of_fields({0xA0}), "taken");
  EXPECT_EQ(refusal_of_fields({}), "its fields end too early");
  EXPECT_EQ(refusal_of_fields({0x80}), "its fields are no object");
  EXPECT_EQ(refusal_of_fields({0xA0, 0x00}), "there is more than fields in its head");
  EXPECT_EQ(refusal_of_fields({0xA1, 0x01, 0x02}), "its fields are no object");  // a key that is no text
  EXPECT_EQ(refusal_of_fields({0xA1, 0x61, 'a'}), "its fields end too early");
  EXPECT_EQ(refusal_of_fields({0xBB, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}), "its fields end too early");
  EXPECT_EQ(refusal_of_fields({0xA1, 0x7B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}),
            "its fields end too early");
  EXPECT_EQ(refusal_of_fields({0xA1, 0x62, 'a', 0xFF, 0x00}), "its fields have text that is not UTF-8");
  EXPECT_EQ(refusal_of_fields({0xBF, 0xFF}), "its fields have a length that is not known in advance");
  EXPECT_EQ(refusal_of_fields({0xA1, 0x61, 'a', 0xC0, 0x00}), "its fields have an unknown value");
  EXPECT_EQ(refusal_of_fields(std::vector<std::uint8_t>(100'000, 0x81)), "its fields are nested too deep");
  EXPECT_EQ(refusal_of_fields(std::vector<std::uint8_t>(100'000, 0x7F)),
            "its fields have a length that is not known in advance");
  std::vector<std::uint8_t> many = {0xA1, 0x61, 'a', 0x9A, 0x00, 0x0F, 0x42, 0x40};  // a million
  many.resize(many.size() + 1'000'000);
  EXPECT_EQ(refusal_of_fields(many), "its fields are too many");
}

TEST(FrameTest, FieldsAsDeepAsAllowedAreTaken) {
  const auto nested = [](std::size_t depth) {
    nlohmann::json fields = nlohmann::json::object();
    for (std::size_t i = 0; i < depth; ++i) fields = {{"a", fields}};
    return refusal_of(encode_frame({.kind = MessageKind::status, .fields = fields}));
  };
  EXPECT_EQ(nested(kDeepestFields), "taken");
  EXPECT_EQ(nested(kDeepestFields + 1), "its fields are nested too deep");
}

TEST(FrameTest, FieldsTooLargeAreNotSent) {
  const Message message{.kind = MessageKind::registry, .fields = {{"text", std::string(kLargestFields, 'x')}}};
  EXPECT_THROW(encode_frame(message), Error);
}

}  // namespace
}  // namespace trifold
