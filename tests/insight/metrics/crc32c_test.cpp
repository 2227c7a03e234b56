// The test vectors of RFC 3720, B.4, and the usual check value.
#include "insight/metrics/crc32c.h"

#include <string>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(Crc32c, StandardVectors) {
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  const std::string falling(rising.rbegin(), rising.rend());
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(falling), 0x113FDB5Cu);
}

}  // namespace
}  // namespace trifold
