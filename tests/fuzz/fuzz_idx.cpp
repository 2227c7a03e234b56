// An IDX file, plain or gzip-compressed: what is accepted has as many values as its extents say.
#include "only_errors.h"
#include "runtime/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  fuzz::accepts([&] {
    const IdxArray array = parse_idx(fuzz::as_bytes(data, size), "fuzz.idx");
    std::int64_t values = 1;
    for (const std::int64_t extent : array.extents) values *= extent;
    if (static_cast<std::size_t>(values) != array.values.size()) fuzz::report_defect("extents do not match the values");
  });
  return 0;
}
