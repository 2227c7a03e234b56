// Numbers of a slice from the network: what is accepted fills the slice and no more, and can be sent on in every
// coding. The first two bytes are the slice's length.
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/simd/half_loops.h"
#include "only_errors.h"
#include "parallel/servers/slices/gradient_codec.h"

namespace trifold::cpu {

// The kernels' choice of instructions is no part of reading.
namespace generic {
extern const HalfLoops half_loops_table;
}
const HalfLoops& half_loops() {
  return generic::half_loops_table;
}

}  // namespace trifold::cpu

namespace {

using namespace trifold;

// What was sent and what is left are what there was. A number beyond 16 bits is sent as the largest there is, and what
// is left of it is as near as a float comes: 671088576 - 65504 is not one.
bool adds_up(float value, float sent, float left) {
  constexpr float kLargestHalf = 65504.0f;
  const bool cut = std::fabs(sent) == kLargestHalf && std::fabs(value) > kLargestHalf;
  return cut ? left == value - sent : sent + left == value;
}

void expect_round_trip(const std::vector<float>& values, const CodecOptions& options) {
  std::vector<float> left(values.size(), 0.0f), back(values.size());
  std::vector<std::byte> bytes;
  encode(values, left, options, bytes);
  decode(bytes, back);
  bool finite = true, said_so = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(left[i])) fuzz::report_defect("what is left is not finite");
    if (!std::isfinite(back[i])) said_so = true;
    if (!std::isfinite(values[i]))
      finite = false;
    else if (!adds_up(values[i], back[i], left[i]))
      fuzz::report_defect("what was sent and what is left are not what there was");
  }
  if (said_so == finite) fuzz::report_defect("numbers that are not finite are hidden, or invented");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // A copy of its own, aligned: the sanitizer sees where it ends.
  const std::vector<std::uint8_t> bytes(data + 2, data + size);
  std::vector<float> values((data[0] + 256u * data[1]) % 4096);
  const std::span<const std::byte> encoding = fuzz::as_bytes(bytes.data(), bytes.size());
  const float* plain = plain_floats(encoding, values.size());
  const bool accepted = fuzz::accepts([&] { decode(encoding, values); });
  if (plain != nullptr && !values.empty() && (!accepted || std::memcmp(plain, values.data(), 4 * values.size()) != 0))
    fuzz::report_defect("plain floats are not what is decoded");
  if (!accepted) return 0;
  for (const CodecOptions& options : {CodecOptions{}, CodecOptions{.half = true}, CodecOptions{.keep = 0.05},
                                      CodecOptions{.half = true, .keep = 0.3}})
    expect_round_trip(values, options);
  return 0;
}
