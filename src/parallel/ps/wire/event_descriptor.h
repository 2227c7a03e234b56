// Something to poll on that any thread can set off.
#pragma once

namespace trifold {

class EventDescriptor {
 public:
  EventDescriptor();
  ~EventDescriptor();
  EventDescriptor(const EventDescriptor&) = delete;
  EventDescriptor& operator=(const EventDescriptor&) = delete;

  int get() const { return descriptor_; }
  void set() const;
  // Whether it was set since it was last taken.
  bool take() const;

 private:
  int descriptor_;
};

}  // namespace trifold
