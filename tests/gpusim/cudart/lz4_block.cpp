#include "cudart/lz4_block.h"

#include <stdexcept>

namespace gpusim {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const std::byte> packed) : packed_(packed) {}
  bool at_end() const { return next_ == packed_.size(); }
  std::size_t byte() {
    if (at_end()) throw std::runtime_error("an LZ4 block ends too early");
    return std::to_integer<std::size_t>(packed_[next_++]);
  }
  // Four bits of a token, continued in further bytes while these are full.
  std::size_t length(std::size_t nibble) {
    std::size_t value = nibble;
    if (nibble == 15) {
      std::size_t more = 255;
      while (more == 255) value += more = byte();
    }
    return value;
  }

 private:
  std::span<const std::byte> packed_;
  std::size_t next_ = 0;
};

constexpr std::size_t kShortestMatch = 4;

}  // namespace

std::string decompress_lz4_block(std::span<const std::byte> packed, std::size_t bytes) {
  std::string text;
  text.reserve(bytes);
  Reader reader(packed);
  while (!reader.at_end() && text.size() < bytes) {
    const std::size_t token = reader.byte();
    for (std::size_t literals = reader.length(token >> 4); literals > 0; --literals) {
      text.push_back(static_cast<char>(reader.byte()));
    }
    if (reader.at_end() || text.size() >= bytes) break;  // the last sequence has no match
    const std::size_t low = reader.byte();
    const std::size_t offset = low | reader.byte() << 8;
    if (offset == 0 || offset > text.size()) throw std::runtime_error("an LZ4 block refers to before its beginning");
    // A match may overlap what it writes, so one byte at a time.
    for (std::size_t left = reader.length(token & 15) + kShortestMatch; left > 0; --left) {
      text.push_back(text[text.size() - offset]);
    }
  }
  if (text.size() != bytes) throw std::runtime_error("an LZ4 block has the wrong length");
  return text;
}

}  // namespace gpusim
