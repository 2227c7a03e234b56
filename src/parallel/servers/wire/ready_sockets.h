// Which of a mailbox's sockets may have something to read, and whose turn it is. ZeroMQ says by a descriptor that
// something has changed with a socket, but only once: whoever was told reads until there is nothing left. To ask a
// socket that has nothing costs two calls of the kernel, as much as a small message; zmq_poll asks all of them, twice.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include <poll.h>

namespace trifold {

class ReadySockets {
 public:
  // `woken` is a descriptor that ends a wait as well; `asked` one by which somebody wants the first socket to be tried.
  ReadySockets(int woken, int asked) : polled_{{woken, POLLIN, 0}, {asked, POLLIN, 0}} {}

  // The sockets' descriptors (ZMQ_FD), in their order. All may have something.
  void watch(const std::vector<int>& descriptors);
  // It was used otherwise: ZeroMQ may have noticed by that what has come, and says so no more.
  void touched(std::size_t socket) { may_have_[socket] = true; }

  // Whoever was heard is last next time, so that nobody speaks all the time. Nothing: wait.
  std::optional<std::size_t> next();
  void heard(std::size_t socket) { turn_ = socket + 1; }
  void nothing_from(std::size_t socket) { may_have_[socket] = false; }

  // True: woken, or a signal came.
  bool wait(std::chrono::milliseconds timeout);

 private:
  std::vector<::pollfd> polled_;  // woken, asked, the sockets
  std::vector<bool> may_have_;
  std::size_t turn_ = 0;
  int since_look_ = 0;  // messages
};

}  // namespace trifold
