// What members of a cluster (servers, workers, managers) say to each other: a kind, a few named fields, and numbers.
// frame.h says how a message lies on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

namespace trifold {

// Bytes that several may hold at once; nobody changes them.
class Payload {
 public:
  Payload() = default;
  // `bytes` stay as they are as long as `owner` lives.
  Payload(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}
  template <class T>
  static Payload own(std::vector<T> values) {
    auto held = std::make_shared<const std::vector<T>>(std::move(values));
    return {held, std::as_bytes(std::span(*held))};
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  Payload part(std::size_t offset, std::size_t bytes) const { return {owner_, bytes_.subspan(offset, bytes)}; }

  // Of the bytes, where somebody has taken it (frame.h): one payload may go to many.
  const std::optional<std::uint64_t>& checksum() const { return checksum_; }
  void set_checksum(std::uint64_t checksum) { checksum_ = checksum; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  std::optional<std::uint64_t> checksum_;
};

enum class MessageKind : std::uint16_t {
  refusal = 0,  // an answer: "why" says in a sentence what is wrong with the request, "code" names it for programs
  // Workers and managers to servers; "id" comes back in the answer.
  push = 1,
  push_answer = 2,
  pull = 3,
  pull_answer = 4,
  status = 5,
  status_answer = 6,
  // Among servers.
  replicate = 10,
  replicate_answer = 11,
  fetch = 12,
  fetch_answer = 13,
  release = 14,    // a manager has read the cut, no answer
  distances = 15,  // to the first server of the view: how far pushes of a clock are apart; sent again until there is
  choice = 16,     // to all: whose push counts, no answer
  // Anybody to the manager that keeps the registry (registry.h).
  registry = 20,
  registry_answer = 21,
  // Workers to managers: what they did.
  report = 30,
  // Among mailboxes, which keep them to themselves: memory where payloads may be read (payload_sharing.h).
  share = 40,
  share_answer = 41,
};

struct Message {
  MessageKind kind = MessageKind::refusal;
  nlohmann::json fields = nlohmann::json::object();
  Payload payload = {};
};

}  // namespace trifold
