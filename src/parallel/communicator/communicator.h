// Ranks that exchange tensors. Every rank of a group calls the same collectives in the same order; each call only
// announces it and returns a ticket, and what it reads and writes must be left alone until wait(ticket). Sums are made
// in the order of ranks, so every rank, and every run, gets the same bits, however the ranks lie on processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trifold {

// Work that was announced; hand it to wait() once.
struct Ticket {
  std::int64_t number = -1;
  int peer = -1;  // of a message; -1: a collective
  int tag = 0;
  bool sends = false;
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual Ticket all_reduce(std::span<float> data) = 0;  // every rank gets the sum
  // Rank r gets the sum of all ranks' rth part; `all` is size() parts.
  virtual Ticket reduce_scatter(std::span<const float> all, std::span<float> part) = 0;
  // Every rank gets all parts in the order of ranks. `part` may lie in its place in `all`.
  virtual Ticket all_gather(std::span<const std::byte> part, std::span<std::byte> all) = 0;
  virtual Ticket broadcast(std::span<std::byte> data, int root) = 0;
  // Part r of `from` goes to rank r, where it becomes the part of this rank in `to`.
  virtual Ticket all_to_all(std::span<const std::byte> from, std::span<std::byte> to) = 0;

  // Messages of one tag between two ranks arrive in the order they were sent. A rank may send to itself.
  virtual Ticket send(std::span<const std::byte> data, int to, int tag = 0) = 0;
  virtual Ticket receive(std::span<std::byte> data, int from, int tag = 0) = 0;

  virtual void wait(const Ticket& ticket) = 0;
  virtual void barrier() = 0;

  // Ends every wait of the group, now and later, with this reason: a rank that fails calls it, so that the others do
  // not wait for it.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace trifold
