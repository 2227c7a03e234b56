// "tcp://host:port", as members are told where to listen and whom to call.
#pragma once

#include <string>

namespace trifold {

struct TcpAddress {
  std::string host;  // a name, 10.0.0.1, [fe80::1], * (all of this machine)
  std::string port;  // digits, or *: any free one

  bool ipv6() const { return host.starts_with('['); }
  // Only this machine can be meant.
  bool loopback() const;
  std::string text() const { return "tcp://" + host + ":" + port; }
};

// Fails if it is none; "localhost" becomes 127.0.0.1.
TcpAddress tcp_address_from(const std::string& text);

}  // namespace trifold
