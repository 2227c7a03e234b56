// A safetensors file in memory: what is accepted has tensors of the right size, within the bytes, that can be written
// again.
#include "only_errors.h"
#include "runtime/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  fuzz::accepts([&] {
    const std::span<const std::byte> bytes = fuzz::as_bytes(data, size);
    const SafetensorsView view = parse_safetensors(bytes, "fuzz.safetensors");
    std::size_t tensor_bytes = 0;
    for (const NamedTensor& tensor : view.tensors) {
      if (tensor.data.size() != static_cast<std::size_t>(tensor.shape.elements()) * size_of(tensor.dtype))
        fuzz::report_defect("a tensor's data do not match its shape");
      unsigned sum = 0;  // reads every byte under the address sanitizer
      for (const std::byte each : tensor.data) sum += std::to_integer<unsigned>(each);
      [[maybe_unused]] volatile unsigned keep = sum;
      tensor_bytes += tensor.data.size();
    }
    if (view.header.size() + tensor_bytes != size) fuzz::report_defect("the tensors do not fill the file");
    encode_safetensors_header(in_file_order(view.tensors), view.metadata);
  });
  return 0;
}
