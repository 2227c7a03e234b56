// The encodings. All begin with 8 bytes: the coding, flags, two zeros and the count of numbers that follow (32 bits);
// then come numbers, then, of top_k, where they belong. Every encoding is padded to 4 bytes with zeros, so that
// several in a row stay aligned. Little-endian.
#include "parallel/servers/slices/gradient_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/cpu/simd/half_loops.h"
#include "parallel/servers/slices/positions.h"

namespace trifold {
namespace {

static_assert(std::endian::native == std::endian::little, "encodings are little-endian");

constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kAlignment = 4;
constexpr std::size_t kBlock = 1024;  // numbers converted at a time
constexpr float kLargestHalf = 65504.0f;
enum Flag : std::uint8_t { kHalf = 1, kBitmap = 2 };

std::size_t padded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// ---- writing

// Numbers beyond 16 bits are sent as the largest there is: the rest is left for the next time. Those that are not
// finite stay so, for whoever has to notice them.
float within_half(float value) {
  const float magnitude = std::fabs(value);
  return magnitude > kLargestHalf && magnitude <= std::numeric_limits<float>::max() ? std::copysign(kLargestHalf, value)
                                                                                    : value;
}

// What is not finite leaves nothing: it would never go away.
float rest_of(float value, float said) {
  const float rest = value - said;
  return std::isfinite(rest) ? rest : 0.0f;
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  void header(Coding coding, std::uint8_t flags, std::size_t count) {
    TRIFOLD_CHECK(count <= std::numeric_limits<std::uint32_t>::max(), "a slice of {} elements", count);
    const std::byte head[4] = {std::byte{static_cast<std::uint8_t>(coding)}, std::byte{flags}};
    out_.insert(out_.end(), head, head + 4);
    const auto size = static_cast<std::uint32_t>(count);
    add(&size, sizeof size);
  }

  void add(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), from, from + bytes);
  }

  // In 16 bits; `numbers` become what was said.
  void halves(std::span<float> numbers) {
    std::uint16_t halves[kBlock];
    for (std::size_t begin = 0; begin < numbers.size(); begin += kBlock) {
      const std::span<float> block = numbers.subspan(begin, std::min(kBlock, numbers.size() - begin));
      for (float& number : block) number = within_half(number);
      const Range all{0, static_cast<std::int64_t>(block.size())};
      cpu::half_loops().float_to_f16(block.data(), halves, all);
      cpu::half_loops().f16_to_float(halves, block.data(), all);
      add(halves, 2 * block.size());
    }
  }

  void pad() { out_.resize(padded(out_.size() - start_) + start_, std::byte{0}); }

 private:
  std::vector<std::byte>& out_;
  std::size_t start_ = out_.size();
};

void encode_floats(std::span<const float> values, std::span<float> left, std::vector<std::byte>& out) {
  Writer writer(out);
  writer.header(Coding::f32, 0, values.size());
  if (left.empty()) return writer.add(values.data(), values.size_bytes());
  float block[kBlock];
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    for (std::size_t i = 0; i < count; ++i) block[i] = values[begin + i] + left[begin + i];
    writer.add(block, 4 * count);
  }
  std::fill(left.begin(), left.end(), 0.0f);
}

void encode_halves(std::span<const float> values, std::span<float> left, std::vector<std::byte>& out) {
  Writer writer(out);
  writer.header(Coding::f16, 0, values.size());
  float wanted[kBlock], said[kBlock];
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    for (std::size_t i = 0; i < count; ++i)
      said[i] = wanted[i] = left.empty() ? values[begin + i] : values[begin + i] + left[begin + i];
    writer.halves({said, count});
    if (left.empty()) continue;
    for (std::size_t i = 0; i < count; ++i) left[begin + i] = rest_of(wanted[i], said[i]);
  }
  writer.pad();
}

// By magnitude, as integers: that orders NaN too, as the largest.
std::uint32_t magnitude_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

// Where the `count` largest are, in order; of equals the first. Zeros are not worth sending.
void choose_largest(std::span<const float> values, std::size_t count, std::vector<std::uint32_t>& positions) {
  static thread_local std::vector<std::uint32_t> magnitudes;
  magnitudes.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) magnitudes[i] = magnitude_of(values[i]);
  const auto last = magnitudes.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  const std::uint32_t threshold = *last;
  const auto above = static_cast<std::size_t>(
      std::count_if(magnitudes.begin(), last, [&](std::uint32_t magnitude) { return magnitude > threshold; }));
  std::size_t equals = threshold > 0 ? count - above : 0;
  positions.clear();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t magnitude = magnitude_of(values[i]);
    if (magnitude < threshold || (magnitude == threshold && equals == 0)) continue;
    if (magnitude == threshold) --equals;
    positions.push_back(static_cast<std::uint32_t>(i));
  }
}

void encode_largest(std::span<const float> values, std::span<float> left, const CodecOptions& options,
                    std::vector<std::byte>& out) {
  static thread_local std::vector<float> sums, said;
  static thread_local std::vector<std::uint32_t> positions;
  sums.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < left.size(); ++i) sums[i] += left[i];
  const double share = options.keep * static_cast<double>(values.size());
  choose_largest(sums, std::clamp(static_cast<std::size_t>(std::llround(share)), std::size_t{1}, values.size()),
                 positions);
  const std::size_t gap_bytes = gaps_size(positions);
  const std::size_t place_bytes = std::min(gap_bytes, bitmap_size(values.size()));
  // Of short slices all is shorter than the largest and their places.
  const std::size_t number = options.half ? 2 : 4;
  if (place_bytes + number * positions.size() >= number * values.size())
    return options.half ? encode_halves(values, left, out) : encode_floats(values, left, out);

  const bool bitmap = place_bytes < gap_bytes;
  Writer writer(out);
  writer.header(Coding::top_k, static_cast<std::uint8_t>((options.half ? kHalf : 0) | (bitmap ? kBitmap : 0)),
                positions.size());
  said.clear();
  for (const std::uint32_t position : positions) said.push_back(sums[position]);
  if (options.half)
    writer.halves(said);
  else
    writer.add(said.data(), 4 * said.size());
  if (bitmap)
    append_bitmap(positions, values.size(), out);
  else
    append_gaps(positions, out);
  writer.pad();
  if (left.empty()) return;
  for (std::size_t i = 0; i < sums.size(); ++i) left[i] = rest_of(sums[i], 0.0f);
  for (std::size_t i = 0; i < positions.size(); ++i) left[positions[i]] = rest_of(sums[positions[i]], said[i]);
}

// ---- reading

struct Head {
  Coding coding = Coding::f32;
  std::uint8_t flags = 0;
  std::size_t count = 0;
  std::span<const std::byte> body = {};  // with what pads it
};

Head read_head(std::span<const std::byte> bytes, std::size_t elements) {
  if (bytes.size() < kHeaderBytes) fail_input("an encoding of {} bytes is too short to be one", bytes.size());
  if (bytes.size() % kAlignment != 0) fail_input("an encoding of {} bytes was cut off", bytes.size());
  Head head;
  const auto coding = std::to_integer<std::uint8_t>(bytes[0]);
  if (coding > static_cast<std::uint8_t>(Coding::top_k)) fail_input("an encoding of unknown kind {}", coding);
  head.coding = static_cast<Coding>(coding);
  head.flags = std::to_integer<std::uint8_t>(bytes[1]);
  const unsigned known = head.coding == Coding::top_k ? kHalf | kBitmap : 0;
  if ((head.flags & ~known) != 0 || bytes[2] != std::byte{0} || bytes[3] != std::byte{0})
    fail_input("an encoding with unknown flags");
  std::uint32_t count = 0;
  std::memcpy(&count, bytes.data() + 4, sizeof count);
  head.count = count;
  head.body = bytes.subspan(kHeaderBytes);
  if (head.coding == Coding::top_k ? head.count > elements : head.count != elements)
    fail_input("an encoding of {} numbers, for a slice of {}", head.count, elements);
  return head;
}

// What follows the numbers may only be zeros, as many as it takes to align them.
void expect_padding(std::span<const std::byte> rest) {
  if (rest.size() >= kAlignment || std::any_of(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; }))
    fail_input("an encoding that is longer than what it says");
}

std::span<const std::byte> take_numbers(const Head& head, std::size_t size) {
  if (head.body.size() / size < head.count)
    fail_input("an encoding of {} numbers in {} bytes", head.count, head.body.size());
  return head.body.first(size * head.count);
}

void read_halves(std::span<const std::byte> bytes, std::span<float> values) {
  std::uint16_t halves[kBlock];
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    std::memcpy(halves, bytes.data() + 2 * begin, 2 * count);
    cpu::half_loops().f16_to_float(halves, values.data() + begin, {0, static_cast<std::int64_t>(count)});
  }
}

void read_floats(std::span<const std::byte> bytes, std::span<float> values) {
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size_bytes());
}

void read_largest(const Head& head, std::span<float> values) {
  static thread_local std::vector<float> numbers;
  static thread_local std::vector<std::uint32_t> positions;
  const bool half = (head.flags & kHalf) != 0;
  const std::span<const std::byte> said = take_numbers(head, half ? 2 : 4);
  numbers.resize(head.count);
  if (half)
    read_halves(said, numbers);
  else
    read_floats(said, numbers);
  positions.resize(head.count);
  const std::span<const std::byte> places = head.body.subspan(said.size());
  expect_padding((head.flags & kBitmap) != 0 ? read_bitmap(places, values.size(), positions)
                                             : read_gaps(places, values.size(), positions));
  std::fill(values.begin(), values.end(), 0.0f);
  for (std::size_t i = 0; i < positions.size(); ++i) values[positions[i]] = numbers[i];
}

}  // namespace

void encode(std::span<const float> values, std::span<float> left, const CodecOptions& options,
            std::vector<std::byte>& out) {
  TRIFOLD_CHECK(left.empty() || left.size() == values.size(), "{} values, {} left over", values.size(), left.size());
  TRIFOLD_CHECK(options.keep > 0 && options.keep <= 1, "a share of {} of the numbers", options.keep);
  if (options.keep < 1 && !values.empty())
    encode_largest(values, left, options, out);
  else if (options.half)
    encode_halves(values, left, out);
  else
    encode_floats(values, left, out);
}

void decode(std::span<const std::byte> bytes, std::span<float> values) {
  const Head head = read_head(bytes, values.size());
  if (head.coding == Coding::top_k) return read_largest(head, values);
  const std::size_t size = head.coding == Coding::f16 ? 2 : 4;
  const std::span<const std::byte> numbers = take_numbers(head, size);
  expect_padding(head.body.subspan(numbers.size()));
  if (head.coding == Coding::f16)
    read_halves(numbers, values);
  else
    read_floats(numbers, values);
}

const float* plain_floats(std::span<const std::byte> bytes, std::size_t elements) {
  if (bytes.size() != kHeaderBytes + 4 * elements || elements > std::numeric_limits<std::uint32_t>::max())
    return nullptr;
  std::byte head[kHeaderBytes] = {};
  const auto count = static_cast<std::uint32_t>(elements);
  std::memcpy(head + 4, &count, sizeof count);
  static_assert(static_cast<int>(Coding::f32) == 0);
  if (std::memcmp(head, bytes.data(), kHeaderBytes) != 0) return nullptr;
  const std::byte* numbers = bytes.data() + kHeaderBytes;
  return reinterpret_cast<std::uintptr_t>(numbers) % alignof(float) == 0 ? reinterpret_cast<const float*>(numbers)
                                                                         : nullptr;
}

}  // namespace trifold
