#include "cudart/fat_binary.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

#include <lz4.h>
#include <zstd.h>

namespace gpusim {
namespace {

struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const std::byte* binary;
  const void* unused;
};
constexpr std::uint32_t kWrapperMagic = 0x466243b1;

struct BinaryHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t entries_bytes;
};
constexpr std::uint32_t kBinaryMagic = 0xba55ed50;

struct EntryHeader {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t compressed_bytes;
  std::uint32_t options_offset;
  std::uint32_t code_version;
  std::uint32_t architecture;
  std::uint64_t name_place;
  std::uint64_t flags;
  std::uint64_t unused;
  std::uint64_t uncompressed_bytes;
};
static_assert(sizeof(EntryHeader) == 64);
constexpr std::uint16_t kKindPtx = 1;
constexpr std::uint16_t kKindCubin = 2;
constexpr std::uint64_t kFlagLz4 = 0x2000;
constexpr std::uint64_t kFlagZstd = 0x8000;

std::string decompress_zstd(std::span<const std::byte> packed, std::size_t bytes) {
  std::string text(bytes, '\0');
  if (ZSTD_decompress(text.data(), bytes, packed.data(), packed.size()) != bytes) {
    throw std::runtime_error("the zstd-compressed PTX does not decompress");
  }
  return text;
}

std::string decompress_lz4(std::span<const std::byte> packed, std::size_t bytes) {
  std::string text(bytes, '\0');
  const int made = LZ4_decompress_safe(reinterpret_cast<const char*>(packed.data()), text.data(),
                                       static_cast<int>(packed.size()), static_cast<int>(bytes));
  if (made < 0 || static_cast<std::size_t>(made) != bytes) {
    throw std::runtime_error("the LZ4-compressed PTX does not decompress");
  }
  return text;
}

std::string unpacked(const EntryHeader& entry, const std::byte* payload) {
  const std::span packed(payload, entry.compressed_bytes);
  if (entry.flags & kFlagZstd) return decompress_zstd(packed, entry.uncompressed_bytes);
  if (entry.flags & kFlagLz4) return decompress_lz4(packed, entry.uncompressed_bytes);
  return std::string(reinterpret_cast<const char*>(payload), entry.payload_bytes);
}

// Calls `found` with the header and the unpacked bytes of every entry of a kind.
template <class Found>
void for_each_entry(const void* fat_binary_wrapper, std::uint16_t kind, Found found) {
  Wrapper wrapper;
  std::memcpy(&wrapper, fat_binary_wrapper, sizeof wrapper);
  if (wrapper.magic != kWrapperMagic) throw std::runtime_error("not a fat binary wrapper");
  BinaryHeader header;
  std::memcpy(&header, wrapper.binary, sizeof header);
  if (header.magic != kBinaryMagic) throw std::runtime_error("not a fat binary");

  const std::byte* at = wrapper.binary + header.header_bytes;
  const std::byte* end = at + header.entries_bytes;
  while (at < end) {
    EntryHeader entry;
    std::memcpy(&entry, at, sizeof entry);
    if (entry.header_bytes < sizeof entry) throw std::runtime_error("a fat binary entry of an unknown form");
    if (entry.kind == kind) found(entry, unpacked(entry, at + entry.header_bytes));
    at += entry.header_bytes + entry.payload_bytes;
  }
}

}  // namespace

std::vector<PtxImage> ptx_images(const void* fat_binary_wrapper) {
  std::vector<PtxImage> images;
  for_each_entry(fat_binary_wrapper, kKindPtx, [&](const EntryHeader& entry, std::string text) {
    text.resize(std::strlen(text.c_str()));  // zeros pad it
    images.push_back({static_cast<int>(entry.architecture), std::move(text)});
  });
  return images;
}

std::vector<CubinImage> cubin_images(const void* fat_binary_wrapper) {
  std::vector<CubinImage> images;
  for_each_entry(fat_binary_wrapper, kKindCubin, [&](const EntryHeader& entry, std::string file) {
    images.push_back({static_cast<int>(entry.architecture), std::move(file)});
  });
  return images;
}

const PtxImage* best_image(const std::vector<PtxImage>& images, int compute_capability) {
  const PtxImage* best = nullptr;
  for (const auto& image : images) {
    if (image.architecture > compute_capability) continue;
    if (!best || image.architecture > best->architecture) best = &image;
  }
  return best;
}

}  // namespace gpusim
