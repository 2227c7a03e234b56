#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runtime/checkpoint/atomic_file.h"
#include "runtime/checkpoint/safetensors_index.h"

namespace trifold {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kHeaderAlignment = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as other readers of the format have it
constexpr int kMaxHeaderDepth = 3;                      // header, tensor, its shape or offsets
constexpr const char* kMetadataKey = "__metadata__";

struct FileDType {
  DType dtype;
  const char* name;
};
constexpr std::array kFileDTypes{FileDType{DType::f64, "F64"}, FileDType{DType::f32, "F32"},
                                 FileDType{DType::f16, "F16"}, FileDType{DType::bf16, "BF16"},
                                 FileDType{DType::i32, "I32"}, FileDType{DType::u8, "U8"}};

const char* file_name_of(DType dtype) {
  for (const FileDType& known : kFileDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  TRIFOLD_CHECK(false, "dtype {} has no name in safetensors files", name_of(dtype));
  return "";
}

std::optional<DType> dtype_from_file_name(const std::string& name) {
  for (const FileDType& known : kFileDTypes) {
    if (name == known.name) return known.dtype;
  }
  return std::nullopt;
}

std::uint64_t load_little_endian_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

// One file's parse: every failure names the file.
class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  SafetensorsView parse(std::span<const std::byte> bytes) const {
    if (bytes.size() < kLengthBytes) {
      fail("it has {} bytes, too few for a header", bytes.size());
    }
    const std::uint64_t header_bytes = load_little_endian_u64(bytes);
    if (header_bytes > kMaxHeaderBytes) fail("its header claims {} bytes (damaged, or another format)", header_bytes);
    if (header_bytes > bytes.size() - kLengthBytes) {
      fail("its header claims {} bytes, but only {} follow (cut short?)", header_bytes, bytes.size() - kLengthBytes);
    }
    const std::size_t data_begin = kLengthBytes + static_cast<std::size_t>(header_bytes);
    SafetensorsView view{
        .metadata = {}, .tensors = {}, .header = bytes.first(data_begin), .data = bytes.subspan(data_begin)};
    const json header = parse_header(view.header.subspan(kLengthBytes));
    for (const auto& [key, value] : header.items()) {
      if (key == kMetadataKey) {
        view.metadata = metadata_from(value);
      } else {
        view.tensors.push_back(tensor_from(key, value, view.data));
      }
    }
    sort_and_check_contiguous(view);
    return view;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_input("'{}' is not a sound safetensors file: {}", name_, fmt::format(format, std::forward<Args>(args)...));
  }

  json parse_header(std::span<const std::byte> text) const {
    if (text.empty() || text.front() != std::byte{'{'}) fail("its header does not begin with '{{'");
    // The JSON parser keeps the last of two equal keys without a word, so keys are watched while it runs.
    std::vector<std::set<std::string>> open_objects;
    const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::object_start) open_objects.emplace_back();
      if (event == json::parse_event_t::object_end) open_objects.pop_back();
      if (event == json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
        fail("its header has two entries named '{}'", parsed.get<std::string>());
      }
      if (depth > kMaxHeaderDepth) fail("its header nests deeper than the format allows");
      return true;
    };
    const auto* begin = reinterpret_cast<const char*>(text.data());
    json header;
    try {
      header = json::parse(begin, begin + text.size(), watch);
    } catch (const json::parse_error& error) {
      fail("its header is not JSON (at byte {} of the header)", error.byte);
    } catch (const json::exception&) {
      fail("its header is not JSON that can be read (a number out of range?)");
    }
    if (!header.is_object()) fail("its header is not a JSON object");
    return header;
  }

  SafetensorsMetadata metadata_from(const json& value) const {
    if (!value.is_object()) fail("its {} is not an object", kMetadataKey);
    SafetensorsMetadata metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail("its {} entry '{}' is not a string", kMetadataKey, key);
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  NamedTensor tensor_from(const std::string& tensor, const json& entry, std::span<const std::byte> data) const {
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
        !entry.contains("data_offsets")) {
      fail("tensor '{}' needs exactly dtype, shape and data_offsets", tensor);
    }
    const DType dtype = dtype_from(tensor, entry["dtype"]);
    const Shape shape = shape_from(tensor, entry["shape"]);

    const json& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      fail("data_offsets of tensor '{}' are not two non-negative integers", tensor);
    }
    const auto begin = offsets[0].get<std::uint64_t>();
    const auto end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > data.size()) {
      fail("tensor '{}' lies at bytes {} to {} of {} bytes of data (cut short?)", tensor, begin, end, data.size());
    }
    const std::uint64_t expected = bytes_of(tensor, shape, dtype);
    if (end - begin != expected) {
      fail("tensor '{}' of {} {} needs {} bytes but has {}", tensor, to_string(shape), name_of(dtype), expected,
           end - begin);
    }
    return {.name = tensor, .shape = shape, .dtype = dtype, .data = data.subspan(begin, end - begin)};
  }

  DType dtype_from(const std::string& tensor, const json& value) const {
    if (!value.is_string()) fail("the dtype of tensor '{}' is not a string", tensor);
    const auto text = value.get<std::string>();
    const std::optional<DType> dtype = dtype_from_file_name(text);
    if (!dtype) fail("the dtype '{}' of tensor '{}' is none of F64, F32, F16, BF16, I32, U8", text, tensor);
    return *dtype;
  }

  Shape shape_from(const std::string& tensor, const json& value) const {
    if (!value.is_array()) fail("the shape of tensor '{}' is not a list", tensor);
    if (value.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
      fail("tensor '{}' has {} dims; at most {} are supported", tensor, value.size(), Shape::kMaxRank);
    }
    Shape shape;
    for (const json& extent : value) {
      constexpr auto kMaxExtent = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > kMaxExtent) {
        fail("the shape of tensor '{}' has an extent that is not a non-negative integer", tensor);
      }
      shape.push_back(extent.get<std::int64_t>());
    }
    return shape;
  }

  // In the order and the type in which Shape::elements() multiplies, so that a shape which passes never overflows
  // there.
  std::uint64_t bytes_of(const std::string& tensor, const Shape& shape, DType dtype) const {
    std::int64_t product = 1;
    bool overflow = false;
    for (int dim = 0; dim < shape.rank(); ++dim) overflow |= __builtin_mul_overflow(product, shape[dim], &product);
    overflow |= __builtin_mul_overflow(product, static_cast<std::int64_t>(size_of(dtype)), &product);
    if (overflow) fail("the shape {} of tensor '{}' is too large", to_string(shape), tensor);
    return static_cast<std::uint64_t>(product);
  }

  void sort_and_check_contiguous(SafetensorsView& view) const {
    std::sort(view.tensors.begin(), view.tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
      return std::tuple(a.data.data(), a.data.size(), std::string_view(a.name)) <
             std::tuple(b.data.data(), b.data.size(), std::string_view(b.name));
    });
    std::size_t end = 0;
    for (const NamedTensor& tensor : view.tensors) {
      const auto begin = static_cast<std::size_t>(tensor.data.data() - view.data.data());
      if (begin < end) fail("tensor '{}' overlaps the one before it", tensor.name);
      if (begin > end) fail("there is a gap of {} bytes before tensor '{}'", begin - end, tensor.name);
      end = begin + tensor.data.size();
    }
    if (end != view.data.size()) fail("{} bytes follow the last tensor", view.data.size() - end);
  }

  const std::string& name_;
};

}  // namespace

SafetensorsView parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  return Parser(name).parse(bytes);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) {
  if (is_safetensors_index(file)) {
    open_index(file);
    return;
  }
  open_part(file);
  metadata_ = parts_.front().view.metadata;
}

void SafetensorsFile::open_part(const std::filesystem::path& file) {
  MappedFile mapping(file);
  SafetensorsView view = parse_safetensors(mapping.bytes(), file.string());
  tensors_.insert(tensors_.end(), view.tensors.begin(), view.tensors.end());
  parts_.push_back({.file = file, .mapping = std::move(mapping), .view = std::move(view)});
}

void SafetensorsFile::open_index(const std::filesystem::path& file) {
  const MappedFile text(file);
  SafetensorsIndex index =
      parse_safetensors_index({reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()}, file.string());
  std::set<std::string> names;
  for (const auto& [tensor, name] : index.file_of) names.insert(name);
  for (const std::string& name : names) open_part(file.parent_path() / name);
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
  for (const Part& part : parts_) {
    for (const NamedTensor& tensor : part.view.tensors) {
      const auto entry = index.file_of.find(tensor.name);
      if (entry == index.file_of.end() || entry->second != part.file.filename())
        fail_input("'{}' has a tensor '{}', which is not there by '{}'", part.file.string(), tensor.name,
                   file.string());
      bytes += tensor.data.size();
      ++tensors;
    }
  }
  if (tensors != index.file_of.size())
    fail_input("the files of '{}' have {} tensors, but it names {}", file.string(), tensors, index.file_of.size());
  if (index.total_bytes && *index.total_bytes != bytes)
    fail_input("the tensors of '{}' have {} bytes, but it says {}", file.string(), bytes, *index.total_bytes);
  metadata_ = std::move(index.metadata);
}

const NamedTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find_if(tensors_, [name](const NamedTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

std::vector<NamedTensor> in_file_order(std::span<const NamedTensor> tensors) {
  std::vector<NamedTensor> ordered(tensors.begin(), tensors.end());
  std::sort(ordered.begin(), ordered.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const std::size_t a_size = size_of(a.dtype);
    const std::size_t b_size = size_of(b.dtype);
    return a_size != b_size ? a_size > b_size : a.name < b.name;
  });
  return ordered;
}

std::string encode_safetensors_header(std::span<const NamedTensor> tensors, const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::size_t offset = 0;
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    TRIFOLD_CHECK(tensor.name != kMetadataKey, "a tensor may not be named {}", kMetadataKey);
    TRIFOLD_CHECK(names.insert(tensor.name).second, "two tensors are named '{}'", tensor.name);
    TRIFOLD_CHECK(tensor.data.size() == static_cast<std::size_t>(tensor.shape.elements()) * size_of(tensor.dtype),
                  "tensor '{}' of {} {} comes with {} bytes", tensor.name, to_string(tensor.shape),
                  name_of(tensor.dtype), tensor.data.size());
    std::vector<std::int64_t> extents;
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) extents.push_back(tensor.shape[dim]);
    header[tensor.name] = {{"dtype", file_name_of(tensor.dtype)},
                           {"shape", extents},
                           {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }

  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    fail_input("a tensor's name or the metadata is not valid UTF-8 and cannot be saved");
  }
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');

  std::string encoded;
  encoded.reserve(kLengthBytes + text.size());
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    encoded.push_back(static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i)));
  }
  return encoded + text;
}

void write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  const std::vector<NamedTensor> ordered = in_file_order(tensors);
  AtomicFile out(file);
  out.write(encode_safetensors_header(ordered, metadata));
  for (const NamedTensor& tensor : ordered) out.write(tensor.data);
  out.commit();
}

}  // namespace trifold
