// NumPy's arrays as they are saved by numpy.save(): <folder>/{train,test}_images.npy and {train,test}_labels.npy. A
// file holds a magic, the version of the format, the length of a header, the header (a Python dictionary of element
// type, order and shape) and then the elements. Whatever the header does not describe exactly is refused.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.h"
#include "runtime/data/file_bytes.h"
#include "runtime/data/memory_images.h"
#include "runtime/data/memory_rows.h"
#include "runtime/data/source.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "elements are copied as they are stored");

constexpr int kMostNpyLabel = 65535;

struct NpyHeader {
  std::string descr;  // the element type: "<f4", "|u1"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

struct NpyArray {
  std::string name;  // of its file
  NpyHeader header;
  std::vector<std::byte> bytes;  // of the file
  std::size_t begin = 0;         // of the elements

  const std::byte* elements() const { return bytes.data() + begin; }
  std::string shape_text() const { return fmt::format("({})", fmt::join(header.shape, ", ")); }
};

// Reads the header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (10, 28, 28), }
class NpyHeaderReader {
 public:
  NpyHeaderReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader read() {
    NpyHeader header;
    std::vector<std::string> seen;
    expect('{');
    while (!take('}')) {
      const std::string key = read_text();
      if (std::ranges::find(seen, key) != seen.end()) fail(fmt::format("'{}' comes twice", key));
      seen.push_back(key);
      expect(':');
      if (key == "descr")
        header.descr = read_descr();
      else if (key == "fortran_order")
        header.fortran_order = read_boolean();
      else if (key == "shape")
        header.shape = read_shape();
      else
        fail("its keys are 'descr', 'fortran_order' and 'shape'");
      if (!take(',') && !at('}')) fail("expected ',' or '}'");
    }
    skip_blanks();
    if (!text_.empty()) fail("more follows the dictionary");
    if (seen.size() != 3) fail("it needs 'descr', 'fortran_order' and 'shape'");
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    fail_input("{}: the header is not that of a NumPy array ({}); save the array again with numpy.save()", name_, what);
  }

  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool at(char wanted) {
    skip_blanks();
    return !text_.empty() && text_.front() == wanted;
  }
  bool take(char wanted) {
    if (!at(wanted)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) fail(fmt::format("expected '{}'", wanted));
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::string read_text() {
    const char quote = at('"') ? '"' : '\'';
    expect(quote);
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) fail("a text does not end");
    const std::string_view text = text_.substr(0, end);
    if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_<>=|") !=
        std::string_view::npos)
      fail("a text holds other letters than those of types and keys");
    text_.remove_prefix(end + 1);
    return std::string(text);
  }

  std::string read_descr() {
    if (at('[')) fail_input("{}: expected numbers, found records with fields; save one array per file", name_);
    return read_text();
  }

  bool read_boolean() {
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    fail("expected True or False");
  }

  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!take(')')) {
      shape.push_back(read_extent());
      if (!take(',') && !at(')')) fail("expected ',' or ')'");
    }
    return shape;
  }

  std::int64_t read_extent() {
    skip_blanks();
    constexpr std::size_t kMostDigits = 18;
    std::int64_t extent = 0;
    std::size_t digits = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
      if (digits == kMostDigits) fail("an extent has too many digits");
      extent = 10 * extent + (text_[digits] - '0');
    }
    if (digits == 0) fail("expected an extent");
    text_.remove_prefix(digits);
    return extent;
  }

  std::string_view text_;
  const std::string& name_;
};

struct NpyType {
  std::string_view descr;
  std::int64_t bytes;
};
constexpr NpyType kNpyTypes[] = {{"|u1", 1}, {"<i4", 4}, {"<i8", 8}, {"<f4", 4}};

std::int64_t element_bytes(const NpyArray& array) {
  const std::string& descr = array.header.descr;
  for (const NpyType& type : kNpyTypes)
    if (type.descr == descr) return type.bytes;
  if (descr.starts_with('>'))
    fail_input("{}: its numbers are big-endian ('{}'); convert them: array.astype(array.dtype.newbyteorder('<'))",
               array.name, descr);
  if (descr == "|O")
    fail_input("{}: it holds Python objects, which are not read; convert them with array.astype()", array.name);
  fail_input("{}: expected elements of uint8, int32, int64 or float32, found '{}'; convert them with array.astype()",
             array.name, descr);
}

// The header's text; what follows it are the elements.
std::string_view header_text(const NpyArray& array, std::size_t& end) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view file(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  if (!file.starts_with(kMagic) || file.size() < kMagic.size() + 2)
    fail_input("{}: expected a NumPy array, which begins with \\x93NUMPY; save it with numpy.save()", array.name);
  const auto byte = [&](std::size_t at) { return std::to_integer<std::size_t>(array.bytes[at]); };
  const std::size_t major = byte(kMagic.size()), minor = byte(kMagic.size() + 1);
  if (major < 1 || major > 3 || minor != 0)
    fail_input("{}: its format is of version {}.{}, and 1.0, 2.0 and 3.0 are read; save it with another NumPy",
               array.name, major, minor);
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t begin = kMagic.size() + 2 + length_bytes;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes && begin <= file.size(); ++i)
    length |= byte(kMagic.size() + 2 + i) << (8 * i);
  if (begin > file.size() || length > file.size() - begin)
    fail_input("{}: the file ends within its header; copy it again", array.name);
  end = begin + length;
  return file.substr(begin, length);
}

NpyArray read_npy(const fs::path& path) {
  NpyArray array{.name = path.string(), .header = {}, .bytes = read_file(path)};
  const std::string_view header = header_text(array, array.begin);
  array.header = NpyHeaderReader(header, array.name).read();
  std::int64_t bytes = element_bytes(array);
  if (array.header.fortran_order)
    fail_input("{}: its elements are in Fortran order; save numpy.ascontiguousarray(array)", array.name);
  const auto found = static_cast<std::int64_t>(array.bytes.size() - array.begin);
  for (const std::int64_t extent : array.header.shape) {
    if (extent == 0) fail_input("{}: an array of shape {} is empty", array.name, array.shape_text());
    // Each extent is compared with what is there, so that no product is beyond 64 bits.
    bytes = extent > found / bytes ? found + 1 : bytes * extent;
    if (bytes > found) break;
  }
  if (bytes != found)
    fail_input("{}: an array of {} elements of shape {} does not have {} bytes; copy the file again", array.name,
               array.header.descr, array.shape_text(), found);
  return array;
}

template <class T>
std::vector<T> elements_of(const NpyArray& array) {
  std::vector<T> values((array.bytes.size() - array.begin) / sizeof(T));
  std::memcpy(values.data(), array.elements(), values.size() * sizeof(T));
  return values;
}

std::vector<float> finite_floats(const NpyArray& array) {
  std::vector<float> values = elements_of<float>(array);
  const auto odd = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (odd != values.end())
    fail_input("{}: sample {} has a number that is not finite; correct or remove it", array.name,
               (odd - values.begin()) / (std::ssize(values) / array.header.shape[0]));
  return values;
}

template <class T>
std::vector<int> labels_of(const NpyArray& array) {
  const std::vector<T> values = elements_of<T>(array);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::cmp_less(values[i], 0) || std::cmp_greater(values[i], kMostNpyLabel))
      fail_input("{}: sample {} has label {}, and labels are 0 to {}; correct it", array.name, i, values[i],
                 kMostNpyLabel);
  return {values.begin(), values.end()};
}

std::vector<int> read_labels(const NpyArray& array) {
  if (array.header.descr == "|u1") return labels_of<std::uint8_t>(array);
  return array.header.descr == "<i4" ? labels_of<std::int32_t>(array) : labels_of<std::int64_t>(array);
}

int extent_of(const NpyArray& array, std::size_t at) {
  const std::int64_t extent = array.header.shape[at];
  if (extent > std::numeric_limits<int>::max())
    fail_input("{}: an extent of shape {} is beyond the limit of {}", array.name, array.shape_text(),
               std::numeric_limits<int>::max());
  return static_cast<int>(extent);
}

// [N, C, H, W] and [N, H, W] are images; the numbers of [N, F] fill the model's input row by row.
ImageShape shape_of(const NpyArray& images, const ImageShape& input) {
  const std::vector<std::int64_t>& shape = images.header.shape;
  const auto extent = [&](std::size_t at) { return extent_of(images, at); };
  if (shape.size() == 4) return {.channels = extent(1), .height = extent(2), .width = extent(3)};
  if (shape.size() == 3) return {.channels = 1, .height = extent(1), .width = extent(2)};
  if (shape.size() != 2)
    fail_input("{}: expected an array of shape [N, C, H, W], [N, H, W] or [N, F], found {}; reshape it", images.name,
               images.shape_text());
  if (input == ImageShape{}) return {.channels = extent(1), .height = 1, .width = 1};
  if (input.elements() != shape[1])
    fail_input(
        "{}: {} numbers per sample cannot fill the model's input of {} ({} numbers); change model.input to "
        "[{}, 1, 1]",
        images.name, shape[1], to_string(input), input.elements(), shape[1]);
  return input;
}

std::unique_ptr<Dataset> open_npy(const fs::path& folder, Split split, const ImageShape& input) {
  NpyArray images = read_npy(folder / fmt::format("{}_images.npy", name_of(split)));
  const NpyArray labels = read_npy(folder / fmt::format("{}_labels.npy", name_of(split)));
  const bool is_bytes = images.header.descr == "|u1";
  if (!is_bytes && images.header.descr != "<f4")
    fail_input("{}: expected images of uint8 or float32, found '{}'; convert them with array.astype()", images.name,
               images.header.descr);
  const ImageShape shape = shape_of(images, input);
  const bool has_targets = labels.header.descr == "<f4";
  if (labels.header.shape.size() != (has_targets ? 2 : 1))
    fail_input(
        "{}: expected labels of shape [N] (uint8, int32 or int64) or targets of shape [N, K] (float32), found "
        "'{}' of shape {}; reshape or convert them",
        labels.name, labels.header.descr, labels.shape_text());
  if (labels.header.shape[0] != images.header.shape[0])
    fail_input("{}: {} labels for the {} images of {}; take both files from one data set", labels.name,
               labels.header.shape[0], images.header.shape[0], images.name);
  std::vector<int> classes = has_targets ? std::vector<int>{} : read_labels(labels);
  const int class_count = has_targets ? 0 : 1 + std::ranges::max(classes);
  if (is_bytes && !has_targets)
    return std::make_unique<MemoryImages>(MemoryImagesContent{.shape = shape,
                                                              .classes = class_count,
                                                              .pixels = elements_of<std::uint8_t>(images),
                                                              .labels = std::move(classes),
                                                              .origins = {{.first_sample = 0, .name = labels.name}}});
  if (is_bytes)
    fail_input(
        "{}: float targets go with images of float32, found '{}'; convert the images: "
        "(array / 255).astype('float32')",
        images.name, images.header.descr);
  MemoryRowsContent rows{.shape = shape, .classes = class_count, .name = labels.name};
  rows.values = finite_floats(images);
  rows.labels = std::move(classes);
  if (has_targets) {
    rows.target_width = extent_of(labels, 1);
    rows.targets = finite_floats(labels);
  }
  return std::make_unique<MemoryRows>(std::move(rows));
}

const RegisterSource register_npy(
    {.name = "npy",
     .help = "NumPy arrays: images of uint8 (0 to 255) or float32; labels, or targets of float32",
     .position = 45,
     .fields = {path_field("folder with train_images.npy, train_labels.npy, test_images.npy and test_labels.npy")},
     .paths = {"path"},
     .only_on_host = "npy arrays may hold floats, which no device augments",
     .open = [](const DataSource& source, Split split) {
       return open_npy(source.values.text("path"), split, source.input);
     }});

}  // namespace
}  // namespace trifold
