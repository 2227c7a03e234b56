// A safetensors file in memory: what is accepted has tensors of the right size, within the bytes, that can be written
// again. The same bytes as an index: what is accepted leads to no other folder.
#include "only_errors.h"
#include "runtime/checkpoint/safetensors_index.h"

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
  fuzz::accepts([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const SafetensorsIndex index = parse_safetensors_index(text, "fuzz.index.json");
    for (const auto& [tensor, file] : index.file_of)
      if (file.find('/') != std::string::npos) fuzz::report_defect("an index leads to another folder");
    parse_safetensors_index(encode_safetensors_index(index), "again");
  });
  return 0;
}
