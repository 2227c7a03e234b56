#include "runtime/data/idx.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "runtime/data/file_bytes.h"
#include "runtime/data/memory_images.h"
#include "runtime/data/source.h"

namespace trifold {

namespace {

constexpr int kMostExtents = 4;
constexpr std::size_t kLongestHeader = 4 + 4 * kMostExtents;
// Far above any set that fits in memory, and far below an overflow.
constexpr std::int64_t kMostValues = std::int64_t{1} << 40;

struct IdxHeader {
  std::vector<std::int64_t> extents;
  std::size_t header_bytes = 0;
  std::int64_t values = 1;
};

IdxHeader parse_header(std::span<const std::byte> bytes, std::string_view name) {
  const auto at = [&](std::size_t offset) { return std::to_integer<unsigned>(bytes[offset]); };
  if (bytes.size() < 4)
    fail_input("{}: expected an IDX header, found {} bytes; fetch the file again", name, bytes.size());
  if (at(0) != 0 || at(1) != 0) {
    fail_input(
        "{}: expected an IDX file (two zero bytes first), found {:#04x} {:#04x}; check that data.type fits the file",
        name, at(0), at(1));
  }
  if (at(2) != 0x08) {
    fail_input("{}: expected IDX values of type 0x08 (unsigned byte), found {:#04x}; convert the file to bytes", name,
               at(2));
  }
  const unsigned rank = at(3);
  if (rank < 1 || rank > kMostExtents) {
    fail_input("{}: expected 1 to {} IDX extents, found {}; the header is damaged, fetch the file again", name,
               kMostExtents, rank);
  }
  IdxHeader header;
  header.header_bytes = 4 + 4 * std::size_t{rank};
  if (bytes.size() < header.header_bytes) {
    fail_input("{}: expected an IDX header of {} bytes, found {}; fetch the file again", name, header.header_bytes,
               bytes.size());
  }
  for (unsigned dim = 0; dim < rank; ++dim) {
    const std::size_t offset = 4 + 4 * std::size_t{dim};
    const std::int64_t extent =
        static_cast<std::int64_t>(at(offset) << 24 | at(offset + 1) << 16 | at(offset + 2) << 8 | at(offset + 3));
    if (extent == 0 || extent > kMostValues / header.values) {
      fail_input("{}: IDX extent {} is {}, which no data set has; the header is damaged, fetch the file again", name,
                 dim, extent);
    }
    header.values *= extent;
    header.extents.push_back(extent);
  }
  return header;
}

IdxArray parse_plain(std::span<const std::byte> bytes, std::string_view name) {
  IdxHeader header = parse_header(bytes, name);
  const std::span<const std::byte> body = bytes.subspan(header.header_bytes);
  if (body.size() != static_cast<std::size_t>(header.values)) {
    fail_input("{}: the header announces {} bytes of values, but {}{} follow; fetch the file again", name,
               header.values, body.size(), static_cast<std::int64_t>(body.size()) > header.values ? " or more" : "");
  }
  IdxArray array{.extents = std::move(header.extents), .values = std::vector<std::uint8_t>(body.size())};
  std::memcpy(array.values.data(), body.data(), body.size());
  return array;
}

// The one of the usual spellings that exists.
std::filesystem::path find_file(const std::filesystem::path& folder, Split split, const std::string& what,
                                const std::string& rank) {
  std::error_code error;
  for (const char* prefix : {split == Split::train ? "train" : "t10k", name_of(split)}) {
    for (const char* dash : {"-", "."}) {
      for (const char* packed : {"", ".gz"}) {
        auto path = folder / fmt::format("{}-{}{}{}-ubyte{}", prefix, what, dash, rank, packed);
        if (std::filesystem::exists(path, error)) return path;
      }
    }
  }
  const char* prefix = split == Split::train ? "train" : "t10k";
  fail_input("{}: expected {}-{}-{}-ubyte or {}-{}-{}-ubyte.gz there, found neither; check data.path", folder.string(),
             prefix, what, rank, prefix, what, rank);
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> bytes, std::string_view name) {
  if (!is_gzip(bytes)) return parse_plain(bytes, name);
  // The header first, so that what is unpacked is bounded by what it announces and not by what the stream can swell to.
  const Unpacked start = unpack_gzip(bytes, name, kLongestHeader);
  const IdxHeader header = parse_header(start.bytes, name);
  const Unpacked whole = unpack_gzip(bytes, name, header.header_bytes + static_cast<std::size_t>(header.values));
  if (!whole.complete) {
    fail_input("{}: the header announces {} bytes of values, but more follow; fetch the file again", name,
               header.values);
  }
  return parse_plain(whole.bytes, name);
}

std::unique_ptr<Dataset> open_idx(const std::filesystem::path& folder, Split split) {
  const std::filesystem::path images_path = find_file(folder, split, "images", "idx3");
  const std::filesystem::path labels_path = find_file(folder, split, "labels", "idx1");
  IdxArray images = parse_idx(read_file(images_path), images_path.string());
  IdxArray labels = parse_idx(read_file(labels_path), labels_path.string());
  const std::size_t rank = images.extents.size();
  if (rank < 3) {
    fail_input("{}: expected images of 3 (N, H, W) or 4 (N, C, H, W) extents, found {}; are images and labels swapped?",
               images_path.string(), rank);
  }
  if (labels.extents.size() != 1) {
    fail_input("{}: expected labels of 1 extent, found {}; are images and labels swapped?", labels_path.string(),
               labels.extents.size());
  }
  if (labels.extents[0] != images.extents[0]) {
    fail_input("{}: {} labels for the {} images of {}; take both files from one data set", labels_path.string(),
               labels.extents[0], images.extents[0], images_path.string());
  }
  MemoryImagesContent content;
  // A side beyond this is a damaged header, and would not fit the ints of ImageShape.
  for (std::size_t dim = 1; dim < rank; ++dim) {
    if (images.extents[dim] > (1 << 14)) {
      fail_input("{}: images with a side of {} are beyond the limit of {}; the header is damaged, fetch the file again",
                 images_path.string(), images.extents[dim], 1 << 14);
    }
  }
  content.shape = {.channels = rank == 4 ? static_cast<int>(images.extents[1]) : 1,
                   .height = static_cast<int>(images.extents[rank - 2]),
                   .width = static_cast<int>(images.extents[rank - 1])};
  content.classes = 1 + *std::max_element(labels.values.begin(), labels.values.end());
  content.pixels = std::move(images.values);
  content.labels.assign(labels.values.begin(), labels.values.end());
  content.origins = {{.first_sample = 0, .name = labels_path.string()}};
  return std::make_unique<MemoryImages>(std::move(content));
}

namespace {

const RegisterSource register_idx({.name = "idx",
                                   .help = "MNIST and its relatives",
                                   .position = 10,
                                   .fields = {path_field("folder with train-images-idx3-ubyte[.gz] etc.")},
                                   .paths = {"path"},
                                   .open = [](const DataSource& source, Split split) {
                                     return open_idx(source.values.text("path"), split);
                                   }});

}  // namespace

}  // namespace trifold
