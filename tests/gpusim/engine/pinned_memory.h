// Page-locked host memory (cudaHostAlloc, cudaMallocHost). From the moment an asynchronous copy is enqueued until the
// host has waited for it, the pages of the copy are closed to the program: to writes when the copy reads them, to all
// access when it writes them. A fault is reported as host_race and the program goes on. Addresses are given out once
// only.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engine/operations.h"

namespace gpusim {

class PinnedMemory {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 30;  // of address space

  static PinnedMemory& get();  // made at first use, never destroyed

  void* allocate(std::size_t bytes, unsigned flags);
  bool release(void* pointer);  // false: not a live block

  bool contains(Address address) const { return address - user_ < kBytes; }
  Address user_base() const { return user_; }
  std::byte* translate(Address address) const { return simulator_ + (address - user_); }

  struct Extent {
    Address address = 0;
    std::size_t bytes = 0;
    unsigned flags = 0;
  };
  bool block_of(Address address, Extent& extent) const;  // of live blocks
  std::string describe(Address address) const;

  // The host must not touch the range against `copy_access` until it knows that `copy` is done.
  void close(Address address, std::size_t bytes, Access copy_access, OperationId copy);
  void open_known(const Clock& host_clock);  // the copies the host has waited for
  void open_all();

  enum class HostAccess { allowed, conflicts, outside };
  // What a faulting access of the host at this address is; `text` says so in words.
  HostAccess judge(Address address, bool is_write, std::string& text) const;
  void open_block(Address address);           // after a report: the program goes on
  void set_page(Address address, bool open);  // around a single allowed access; false: as its copies demand

 private:
  PinnedMemory();

  struct Pending {
    Address begin = 0, end = 0;
    Access access = Access::read;
    OperationId copy = 0;
  };
  struct Block {
    std::size_t bytes = 0;
    bool live = true;
    unsigned flags = 0;
    std::vector<Pending> pending;
  };
  using Blocks = std::map<Address, Block>;
  Blocks::const_iterator find(Address address) const;  // end(): in no block's pages
  int protection_of_page(const Block& block, Address page) const;
  void protect(const Block& block, Address begin, Address end) const;

  Address user_ = 0;
  std::byte* simulator_ = nullptr;
  std::size_t top_ = 0;
  Blocks blocks_;
};

}  // namespace gpusim
