// What ps_bench holds push+pull against: ZeroMQ alone, moving the same bytes to the servers and back.
#pragma once

#include <cstddef>
#include <vector>

namespace trifold {

struct PlainCopyArgs {
  int workers = 4;
  int servers = 1;
  std::size_t bytes = 0;          // of the model: every worker sends so many, and gets so many
  std::size_t message_bytes = 0;  // in messages of this length
  int rounds = 5;                 // that count: one more connects everybody
  // Copies that a server makes: as zmq_recv and zmq_send do it, or none, since it hands on the message it got.
  bool server_copies = true;
  bool local = false;  // by Unix sockets; else by TCP
  // Bytes that a server sends on to the next one for each that it gets of a worker, as servers with replicas do.
  double replicated = 0;
};

struct RoundCost {
  double seconds = 0;         // the best round's, from the first push to the last pull
  double median_seconds = 0;  // of the rounds
  double cpu_seconds = 0;     // of all threads, mean of the rounds
};

RoundCost cost_of_rounds(std::vector<double> seconds, double cpu_seconds);

// Workers send from a buffer that they may change at once, and receive into another: a copy each way that nobody who
// has gradients to send and weights to receive can do without. Sockets and I/O threads are as many as push+pull's.
RoundCost measure_plain_copy(const PlainCopyArgs& args);

// CPU time of this process so far.
double process_cpu_seconds();

}  // namespace trifold
