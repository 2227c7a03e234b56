// Checkpoint files: the input as it is, the input with its checksums made right (so that damage behind them is
// reached), and the input as the text of a training state. Files are in memory; what is accepted must survive a round
// trip.
#include <cstring>
#include <filesystem>
#include <string>

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "only_errors.h"
#include "runtime/checkpoint/checkpoint.h"

namespace trifold {
namespace {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("checkpoint", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fuzz::report_defect("no file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void hold(const std::string& bytes) const {
    const auto size = static_cast<::ssize_t>(bytes.size());
    if (::ftruncate(descriptor_, size) != 0 || ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != size)
      fuzz::report_defect("the file in memory cannot be written");
  }
  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

constexpr std::size_t kDigits = 16;

// Where the digits of a checksum stand; npos if the header has no such entry.
std::size_t digits_of(const std::string& header, const std::string& key) {
  const std::string entry = "\"" + key + "\":\"";
  const std::size_t at = header.find(entry);
  if (at == std::string::npos || at + entry.size() + kDigits > header.size()) return std::string::npos;
  return at + entry.size();
}

std::string checksum(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::string with_right_checksums(const std::string& file) {
  std::uint64_t json_bytes = 0;
  if (file.size() < sizeof json_bytes) return file;
  std::memcpy(&json_bytes, file.data(), sizeof json_bytes);
  if (json_bytes > file.size() - sizeof json_bytes) return file;
  std::string header = file.substr(0, sizeof json_bytes + static_cast<std::size_t>(json_bytes));
  const std::string data = file.substr(header.size());
  if (const std::size_t at = digits_of(header, "trifold.data_xxh3"); at != std::string::npos)
    header.replace(at, kDigits, checksum(data));
  if (const std::size_t at = digits_of(header, "trifold.header_xxh3"); at != std::string::npos) {
    header.replace(at, kDigits, std::string(kDigits, '0'));
    header.replace(at, kDigits, checksum(header));
  }
  return header + data;
}

// A state that was read can be written, and the text means the same again.
void check_round_trip(const TrainingState& state) {
  const std::string text = to_json_text(state);
  if (to_json_text(training_state_from_json(text, "again")) != text)
    fuzz::report_defect("a training state changes when it is saved and loaded");
}

void load(const MemoryFile& file, const std::string& bytes) {
  fuzz::accepts([&] {
    file.hold(bytes);
    check_round_trip(load_checkpoint(file.path()).state);
  });
}

}  // namespace
}  // namespace trifold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  static const MemoryFile file;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  load(file, bytes);
  load(file, with_right_checksums(bytes));
  fuzz::accepts([&] { check_round_trip(training_state_from_json(bytes, "fuzz.safetensors")); });
  return 0;
}
