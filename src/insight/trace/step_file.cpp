#include "insight/trace/step_file.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <type_traits>

#include <unistd.h>

#include "core/error.h"

namespace trifold {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;  // that travel as one message

template <class T>
std::span<const std::byte> bytes_of_value(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
std::span<std::byte> room_for_value(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

StepFile::StepFile() {
  std::string name = (std::filesystem::temp_directory_path() / "trifold-steps-XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) fail_runtime("cannot write '{}'; TMPDIR may name another folder", name);
  ::unlink(name.c_str());
  file_.reset(::fdopen(descriptor, "w+b"));
}

void StepFile::put(std::span<const std::byte> data) {
  if (data.empty()) return;  // C's functions take no null pointer, even for no bytes
  if (std::fwrite(data.data(), 1, data.size(), file_.get()) != data.size())
    fail_runtime("cannot write the steps of this process to '{}': is the disk full?",
                 std::filesystem::temp_directory_path().string());
}

void StepFile::write(const TraceStep& step, std::span<const SpanLog> ranks) {
  put(bytes_of_value(step));
  put(bytes_of_value(static_cast<std::uint64_t>(ranks.size())));
  for (const SpanLog& log : ranks) {
    static_assert(std::is_trivially_copyable_v<Span>);
    put(bytes_of_value(static_cast<std::uint64_t>(log.spans().size())));
    put(std::as_bytes(std::span(log.spans())));
  }
}

void StepFile::rewind() {
  if (std::fflush(file_.get()) != 0 || std::fseek(file_.get(), 0, SEEK_SET) != 0)
    fail_runtime("cannot write the steps of this process to '{}': is the disk full?",
                 std::filesystem::temp_directory_path().string());
}

std::size_t StepFile::read(std::span<std::byte> data) {
  return data.empty() ? 0 : std::fread(data.data(), 1, data.size(), file_.get());
}

// A piece of no bytes is the end.
void StepFile::send(Communicator& group, int to) {
  rewind();
  std::vector<std::byte> piece(kPieceBytes);
  std::uint64_t size = 0;
  do {
    size = read(piece);
    group.wait(group.send(bytes_of_value(size), to));
    if (size > 0) group.wait(group.send(std::span(piece).first(size), to));
  } while (size > 0);
}

bool StepReader::receive() {
  std::uint64_t size = 0;
  group_->wait(group_->receive(room_for_value(size), from_));
  received_.resize(size);
  used_ = 0;
  if (size > 0) group_->wait(group_->receive(received_, from_));
  return size > 0;
}

bool StepReader::read(std::span<std::byte> data) {
  if (file_ != nullptr) return file_->read(data) == data.size();
  while (!data.empty()) {
    if (used_ == received_.size() && !receive()) return false;
    const std::size_t size = std::min(data.size(), received_.size() - used_);
    std::memcpy(data.data(), received_.data() + used_, size);
    used_ += size;
    data = data.subspan(size);
  }
  return true;
}

bool StepReader::next(NotedStep& step) {
  if (!read(room_for_value(step.step))) return false;
  std::uint64_t ranks = 0;
  bool whole = read(room_for_value(ranks));
  step.ranks.resize(whole ? ranks : 0);
  for (std::vector<Span>& spans : step.ranks) {
    std::uint64_t count = 0;
    whole = whole && read(room_for_value(count));
    spans.resize(whole ? count : 0);
    whole = whole && read(std::as_writable_bytes(std::span(spans)));
  }
  TRIFOLD_CHECK(whole, "a step that was noted cannot be read back");
  return true;
}

}  // namespace trifold
