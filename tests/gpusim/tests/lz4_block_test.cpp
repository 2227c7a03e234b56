// The LZ4 block decoder, on blocks written by hand from the format's description.
#include "cudart/lz4_block.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace gpusim {
namespace {

std::string decompress(const std::vector<unsigned char>& block, std::size_t bytes) {
  return decompress_lz4_block(std::as_bytes(std::span(block)), bytes);
}

TEST(Lz4Block, LiteralsOnly) {
  EXPECT_EQ(decompress({0x50, 'h', 'e', 'l', 'l', 'o'}, 5), "hello");
}

TEST(Lz4Block, MatchThatOverlapsItself) {
  // "ab", then 4 + 4 bytes from two back, then the literal "c".
  EXPECT_EQ(decompress({0x24, 'a', 'b', 2, 0, 0x10, 'c'}, 11),
            "ababababab"
            "c");
}

TEST(Lz4Block, LongLengthsContinueInFurtherBytes) {
  std::vector<unsigned char> block = {0xff, 255, 30};  // 15 + 255 + 30 literals, a match of 15 + 5 + 4
  block.insert(block.end(), 300, 'x');
  block.insert(block.end(), {1, 0, 5, 0x00});
  EXPECT_EQ(decompress(block, 324), std::string(324, 'x'));
}

TEST(Lz4Block, DamageIsAnError) {
  EXPECT_THROW(decompress({0x50, 'h', 'e'}, 5), std::runtime_error);              // ends too early
  EXPECT_THROW(decompress({0x10, 'a', 9, 0, 0x10, 'b'}, 6), std::runtime_error);  // from before the beginning
  EXPECT_THROW(decompress({0x20, 'a', 'b'}, 5), std::runtime_error);              // too short
}

}  // namespace
}  // namespace gpusim
