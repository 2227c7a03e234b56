// Files of CIFAR-10 and CIFAR-100. A record is longer than a good fuzz input, so the input is read as it is and, again,
// repeated until it fills whole records.
#include <vector>

#include "only_errors.h"
#include "runtime/data/cifar.h"

namespace trifold {
namespace {

void read_both_kinds(std::span<const std::byte> bytes) {
  for (const CifarKind kind : {CifarKind::cifar10, CifarKind::cifar100}) {
    fuzz::accepts([&] {
      const CifarRecords records = parse_cifar(bytes, "fuzz.bin", kind);
      const int classes = kind == CifarKind::cifar10 ? 10 : 100;
      if (records.labels.empty() || records.pixels.size() != records.labels.size() * 3 * 32 * 32)
        fuzz::report_defect("labels do not match pixels");
      for (const std::uint8_t label : records.labels)
        if (label >= classes) fuzz::report_defect("a label beyond the classes");
    });
  }
}

}  // namespace
}  // namespace trifold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  const std::span<const std::byte> bytes = fuzz::as_bytes(data, size);
  read_both_kinds(bytes);
  if (size == 0) return 0;
  const std::size_t records = 1 + data[0] % 3;
  for (const std::size_t record_bytes : {std::size_t{3073}, std::size_t{3074}}) {
    std::vector<std::byte> filled(records * record_bytes);
    for (std::size_t i = 0; i < filled.size(); ++i) filled[i] = bytes[i % size];
    read_both_kinds(filled);
  }
  return 0;
}
