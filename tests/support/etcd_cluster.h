// Real etcd processes on free loopback ports, with their data in a temporary folder. They end with this object, and
// with the test's process however that ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "runtime/checkpoint/temporary_directory.h"

namespace trifold::test {

class EtcdCluster {
 public:
  // Why there is none on this machine; null: there is.
  static const char* missing();

  // Returns when all members answer.
  explicit EtcdCluster(int members);
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  std::vector<std::string> urls() const;
  const std::string& url(int member) const { return members_[static_cast<std::size_t>(member)].url; }
  int leader() const;     // -1: none
  void kill(int member);  // -9
  void pause(int member) const;
  void go_on(int member) const;

 private:
  struct Member {
    std::string url;       // for clients
    std::string peer_url;  // among themselves
    pid_t process = -1;
  };

  void start();
  void stop();
  void wait_until_healthy(std::chrono::seconds patience);

  testing::TemporaryDirectory directory_;
  std::vector<Member> members_;
};

}  // namespace trifold::test
