#include "parallel/servers/wire/tcp_address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include <arpa/inet.h>

#include "core/error.h"

namespace trifold {
namespace {

bool is_host(const std::string& host) {
  const bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  const std::string inner = bracketed ? host.substr(1, host.size() - 2) : host;
  if (host == "*") return true;
  return !inner.empty() && std::ranges::all_of(inner, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
           c == '_' || (bracketed && (c == ':' || c == '%'));
  });
}

bool is_port(const std::string& port) {
  if (port == "*") return true;
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  return error == std::errc() && end == port.data() + port.size();
}

}  // namespace

bool TcpAddress::loopback() const {
  std::array<std::uint8_t, 16> bytes = {};
  if (::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return bytes[0] == 127;
  if (!ipv6() || ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), bytes.data()) != 1) return false;
  return bytes.back() == 1 && std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t byte) { return byte == 0; });
}

TcpAddress tcp_address_from(const std::string& text) {
  const std::string scheme = "tcp://";
  const std::size_t colon = text.rfind(':');
  if (text.starts_with(scheme) && colon != std::string::npos && colon > scheme.size()) {
    TcpAddress address{.host = text.substr(scheme.size(), colon - scheme.size()), .port = text.substr(colon + 1)};
    if (address.host == "localhost") address.host = "127.0.0.1";
    if (is_host(address.host) && is_port(address.port)) return address;
  }
  fail_input("'{}' is no address; write it like tcp://10.0.0.1:5555", text);
}

}  // namespace trifold
