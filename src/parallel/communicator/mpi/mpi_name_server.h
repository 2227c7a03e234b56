// Open MPI's name server, by which processes that were not started together find each other. It is a process of its own
// that lives as long as this object.
#pragma once

#include <string>

namespace trifold {

class MpiNameServer {
 public:
  MpiNameServer();
  ~MpiNameServer();
  MpiNameServer(const MpiNameServer&) = delete;
  MpiNameServer& operator=(const MpiNameServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  void stop() const;

  int process_ = -1;
  std::string address_;
};

// MPI, when it starts in this process, asks the server at this address.
void use_name_server(const std::string& address);

}  // namespace trifold
