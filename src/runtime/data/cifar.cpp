#include "runtime/data/cifar.h"

#include <cstring>
#include <string>

#include "core/error.h"
#include "runtime/data/file_bytes.h"
#include "runtime/data/memory_images.h"
#include "runtime/data/source.h"

namespace trifold {

namespace {

constexpr ImageShape kShape{.channels = 3, .height = 32, .width = 32};
constexpr std::size_t kPixelBytes = std::size_t{3} * 32 * 32;

int class_count(CifarKind kind) {
  return kind == CifarKind::cifar10 ? 10 : 100;
}

std::vector<std::string> file_names(CifarKind kind, Split split) {
  if (kind == CifarKind::cifar100) return {split == Split::train ? "train.bin" : "test.bin"};
  if (split == Split::test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
}

}  // namespace

CifarRecords parse_cifar(std::span<const std::byte> bytes, std::string_view name, CifarKind kind) {
  const std::size_t label_bytes = kind == CifarKind::cifar10 ? 1 : 2;
  const std::size_t record_bytes = label_bytes + kPixelBytes;
  if (bytes.empty() || bytes.size() % record_bytes != 0) {
    fail_input("{}: expected whole records of {} bytes, found {} bytes; fetch the binary version of the set again",
               name, record_bytes, bytes.size());
  }
  const std::size_t count = bytes.size() / record_bytes;
  CifarRecords records{.labels = std::vector<std::uint8_t>(count),
                       .pixels = std::vector<std::uint8_t>(count * kPixelBytes)};
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* record = bytes.data() + i * record_bytes;
    const int label = std::to_integer<int>(record[label_bytes - 1]);  // the fine label is the second of two
    if (label >= class_count(kind)) {
      fail_input("{}: record {} has label {}, expected 0..{}; the file is damaged or of the other CIFAR set", name, i,
                 label, class_count(kind) - 1);
    }
    records.labels[i] = static_cast<std::uint8_t>(label);
    std::memcpy(records.pixels.data() + i * kPixelBytes, record + label_bytes, kPixelBytes);
  }
  return records;
}

std::unique_ptr<Dataset> open_cifar(const std::filesystem::path& folder, Split split, CifarKind kind) {
  const std::vector<std::string> names = file_names(kind, split);
  std::filesystem::path place = folder;
  std::error_code error;
  const auto unpacked = folder / (kind == CifarKind::cifar10 ? "cifar-10-batches-bin" : "cifar-100-binary");
  if (!std::filesystem::exists(folder / names[0], error) && std::filesystem::exists(unpacked / names[0], error)) {
    place = unpacked;
  }
  MemoryImagesContent content{.shape = kShape, .classes = class_count(kind)};
  for (const std::string& name : names) {
    const std::filesystem::path path = place / name;
    const CifarRecords records = parse_cifar(read_file(path), path.string(), kind);
    content.origins.push_back(
        {.first_sample = static_cast<std::int64_t>(content.labels.size()), .name = path.string()});
    content.labels.insert(content.labels.end(), records.labels.begin(), records.labels.end());
    content.pixels.insert(content.pixels.end(), records.pixels.begin(), records.pixels.end());
  }
  return std::make_unique<MemoryImages>(std::move(content));
}

namespace {

const RegisterSource register_cifar10({.name = "cifar10",
                                       .help = "CIFAR-10, binary version",
                                       .position = 20,
                                       .fields = {path_field("folder with data_batch_1.bin etc.")},
                                       .paths = {"path"},
                                       .open = [](const DataSource& source, Split split) {
                                         return open_cifar(source.values.text("path"), split, CifarKind::cifar10);
                                       }});

const RegisterSource register_cifar100({.name = "cifar100",
                                        .help = "CIFAR-100, binary version",
                                        .position = 30,
                                        .fields = {path_field("folder with train.bin and test.bin")},
                                        .paths = {"path"},
                                        .open = [](const DataSource& source, Split split) {
                                          return open_cifar(source.values.text("path"), split, CifarKind::cifar100);
                                        }});

}  // namespace

}  // namespace trifold
