// Somebody who is told of every node of a program before and after it runs, on the thread that runs it. Only devices
// that do work when it is given can tell.
#pragma once

#include <cstddef>

namespace trifold {

class NodeWatcher {
 public:
  NodeWatcher() = default;
  NodeWatcher(const NodeWatcher&) = delete;
  NodeWatcher& operator=(const NodeWatcher&) = delete;
  virtual ~NodeWatcher() = default;

  virtual void before(std::size_t node) = 0;
  virtual void after(std::size_t node) = 0;
};

}  // namespace trifold
