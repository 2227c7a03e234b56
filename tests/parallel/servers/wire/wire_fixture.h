// What tests of the wire share: messages to send, and peers that speak bare TCP and say what they like.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "parallel/servers/wire/mailbox.h"

namespace trifold::test {

using namespace std::chrono_literals;

inline constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

inline Message request(int id, Payload payload = {}) {
  return {.kind = MessageKind::push, .fields = {{"id", id}}, .payload = std::move(payload)};
}

inline Payload pattern(std::size_t bytes) {
  std::vector<std::uint8_t> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::uint8_t>(i * 31 + i / 4096);
  return Payload::own(std::move(values));
}

inline std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

// Whether `done` comes to hold, while the mailbox goes on receiving.
template <class Done>
bool comes_true(Mailbox& mailbox, Done done, std::chrono::milliseconds within = 10s) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    mailbox.receive(5ms);
  }
  return true;
}

// Where the system keeps processes from mapping each other's memory, payloads are sent.
class SharingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const int memory = ::memfd_create("probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int other = ::open(("/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory)).c_str(), O_RDWR);
    const int process = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    const bool can = memory >= 0 && other >= 0 && process >= 0 && ::fcntl(memory, F_ADD_SEALS, F_SEAL_SEAL) == 0;
    for (const int descriptor : {memory, other, process})
      if (descriptor >= 0) ::close(descriptor);
    if (!can) GTEST_SKIP() << "this system has no memory that processes can share by memfd_create and /proc";
  }
};

class TcpPeer {
 public:
  explicit TcpPeer(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    ::sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_of(address));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const ::sockaddr*>(&to), sizeof to), 0) << std::strerror(errno);
    const int at_once = 1;
    EXPECT_EQ(::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once), 0) << std::strerror(errno);
  }
  explicit TcpPeer(int socket) : socket_(socket) {}
  TcpPeer(TcpPeer&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  TcpPeer& operator=(TcpPeer&&) = delete;
  ~TcpPeer() {
    if (socket_ >= 0) ::close(socket_);
  }

  // Whether all of it was taken by the other machine's side.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // What came within the time; empty: nothing, or the connection has ended.
  std::string receive(std::chrono::milliseconds within = 2s) const {
    ::pollfd item = {socket_, POLLIN, 0};
    if (::poll(&item, 1, static_cast<int>(within.count())) <= 0) return {};
    std::string bytes(65536, '\0');
    const auto got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  // Whether the other side ends the connection within the time.
  bool is_cut_off(std::chrono::milliseconds within) const {
    const auto until = std::chrono::steady_clock::now() + within;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      ::pollfd item = {socket_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&item, 1, static_cast<int>(left.count())) <= 0) return false;
      char bytes[4096];
      if (::recv(socket_, bytes, sizeof bytes, 0) <= 0) return true;
    }
  }
  // Of a plain ZeroMQ peer (ZMTP 3.0, NULL), up to where messages begin.
  void shake_hands() const {
    const std::string greeting = std::string("\xFF\0\0\0\0\0\0\0\x01\x7F\x03\x00NULL", 16) + std::string(48, '\0');
    EXPECT_TRUE(send(greeting));
    EXPECT_TRUE(
        send(std::string("\x04\x1C\x05READY\x0BSocket-Type\0\0\0\x06"
                         "DEALER",
                         30)));
    std::string got;
    while (got.find("READY") == std::string::npos) {
      const std::string more = receive();
      ASSERT_FALSE(more.empty());
      got += more;
    }
  }
  // A part of a ZeroMQ message, long form.
  static std::string part(std::string_view bytes, bool more, std::uint64_t said) {
    std::string text(1, static_cast<char>(more ? 3 : 2));
    for (int i = 7; i >= 0; --i) text += static_cast<char>(said >> 8 * i);
    return text.append(bytes);
  }
  static std::string part(std::string_view bytes, bool more) { return part(bytes, more, bytes.size()); }

 private:
  int socket_;
};

}  // namespace trifold::test
