// Something to poll on that any thread can set off.
#pragma once

#include "core/file_descriptor.h"

namespace trifold {

class EventDescriptor {
 public:
  EventDescriptor();

  int get() const { return descriptor_.get(); }
  void set() const;
  // Whether it was set since it was last taken.
  bool take() const;

 private:
  FileDescriptor descriptor_;
};

}  // namespace trifold
