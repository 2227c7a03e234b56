// TCP connections that carry lines of text, for what processes of a job tell each other beside their tensors.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trifold {

class LineSocket {
 public:
  explicit LineSocket(int descriptor) : descriptor_(descriptor) {}
  ~LineSocket();
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;

  int descriptor() const { return descriptor_; }
  // False: the other side is gone.
  bool send(const std::string& line);
  // Reads what has arrived, waiting until something has; complete lines are added to `lines`. False: nothing will come
  // any more.
  bool receive(std::vector<std::string>& lines);

 private:
  int descriptor_ = -1;
  std::string begun_;  // of a line
};

// Waits for connections to a port of this machine; 0: any that is free.
class LineListener {
 public:
  struct Args {
    int port = 0;
    bool this_machine_only = false;
  };
  explicit LineListener(const Args& args);

  int port() const { return port_; }
  // Throws when nobody came in that time.
  LineSocket accept(std::chrono::milliseconds patience);

 private:
  LineSocket socket_;  // only its descriptor is used
  int port_ = 0;
};

// Tries until the other side listens or the time is over, then throws.
LineSocket connect_to(const std::string& host, int port, std::chrono::milliseconds patience);

}  // namespace trifold
