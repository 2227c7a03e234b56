#include "plain_copy.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <zmq.hpp>

namespace trifold {
namespace {

using Clock = std::chrono::steady_clock;

// Sends everything back to whom it came from, until it goes.
class Echo {
 public:
  explicit Echo(const PlainCopyArgs& args) : args_(args) {
    socket_.set(zmq::sockopt::rcvtimeo, 50);
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.bind(args.local ? "ipc://*" : "tcp://127.0.0.1:*");
    address_ = socket_.get(zmq::sockopt::last_endpoint);
    for (zmq::socket_t* socket : {&replicas_, &next_}) socket->set(zmq::sockopt::linger, 0);
    next_.set(zmq::sockopt::sndhwm, 0);
    replicas_.bind("tcp://127.0.0.1:*");
  }

  const std::string& address() const { return address_; }
  // The next server is there: it gets this one's replicas.
  void start(const Echo& next) {
    next_.connect(next.replicas_.get(zmq::sockopt::last_endpoint));
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

 private:
  void run(const std::stop_token& stop) {
    std::vector<std::byte> room(args_.message_bytes);
    std::vector<std::byte> replica(static_cast<std::size_t>(args_.replicated * static_cast<double>(room.size())) + 1);
    zmq::message_t name, body;
    while (!stop.stop_requested()) {
      while (args_.replicated > 0 && replicas_.recv(zmq::buffer(replica), zmq::recv_flags::dontwait)) {
      }
      if (!socket_.recv(name)) continue;
      if (args_.server_copies) {
        const auto got = socket_.recv(zmq::buffer(room));
        const std::size_t size = got ? got->size : 0;
        socket_.send(name, zmq::send_flags::sndmore);
        socket_.send(zmq::buffer(room.data(), size));
        const auto replicated = static_cast<std::size_t>(args_.replicated * static_cast<double>(size));
        if (replicated > 0) next_.send(zmq::buffer(replica.data(), replicated));
      } else {
        (void)socket_.recv(body);
        socket_.send(name, zmq::send_flags::sndmore);
        socket_.send(body, zmq::send_flags::none);
      }
    }
  }

  const PlainCopyArgs& args_;
  zmq::context_t context_ = zmq::context_t(1);
  zmq::socket_t socket_ = zmq::socket_t(context_, zmq::socket_type::router);
  zmq::socket_t replicas_ = zmq::socket_t(context_, zmq::socket_type::pull);
  zmq::socket_t next_ = zmq::socket_t(context_, zmq::socket_type::push);
  std::string address_;
  std::jthread thread_;  // goes before what it uses
};

class Worker {
 public:
  Worker(const PlainCopyArgs& args, const std::vector<std::unique_ptr<Echo>>& servers)
      : args_(args), from_(args.bytes), into_(args.bytes) {
    for (const auto& server : servers) {
      zmq::socket_t& socket = sockets_.emplace_back(context_, zmq::socket_type::dealer);
      socket.set(zmq::sockopt::sndhwm, 0);
      socket.connect(server->address());
    }
  }

  void round() {
    for (std::size_t at = 0; at < from_.size(); at += args_.message_bytes)
      socket_for(at).send(zmq::buffer(from_.data() + at, length(at)));
    for (std::size_t at = 0; at < into_.size(); at += args_.message_bytes)
      (void)socket_for(at).recv(zmq::buffer(into_.data() + at, length(at)));
  }

 private:
  zmq::socket_t& socket_for(std::size_t at) { return sockets_[at / args_.message_bytes % sockets_.size()]; }
  std::size_t length(std::size_t at) const { return std::min(args_.message_bytes, args_.bytes - at); }

  const PlainCopyArgs& args_;
  std::vector<std::byte> from_, into_;
  zmq::context_t context_ = zmq::context_t(1);
  std::vector<zmq::socket_t> sockets_;
};

}  // namespace

double process_cpu_seconds() {
  ::timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

RoundCost cost_of_rounds(std::vector<double> seconds, double cpu_seconds) {
  std::ranges::sort(seconds);
  return {.seconds = seconds.front(), .median_seconds = seconds[seconds.size() / 2], .cpu_seconds = cpu_seconds};
}

RoundCost measure_plain_copy(const PlainCopyArgs& args) {
  std::vector<std::unique_ptr<Echo>> servers;
  for (int i = 0; i < args.servers; ++i) servers.push_back(std::make_unique<Echo>(args));
  for (std::size_t i = 0; i < servers.size(); ++i) servers[i]->start(*servers[(i + 1) % servers.size()]);
  std::vector<double> rounds;
  double cpu_seconds = 0;
  std::barrier together(args.workers);
  Clock::time_point begin;
  double cpu_begin = 0;
  std::vector<std::jthread> working;
  for (int i = 0; i < args.workers; ++i)
    working.emplace_back([&, i] {
      Worker worker(args, servers);
      for (int round = 0; round <= args.rounds; ++round) {
        together.arrive_and_wait();
        if (i == 0) begin = Clock::now();
        if (i == 0 && round == 1) cpu_begin = process_cpu_seconds();
        worker.round();
        together.arrive_and_wait();
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        if (i == 0 && round > 0) rounds.push_back(seconds);
      }
      if (i == 0) cpu_seconds = (process_cpu_seconds() - cpu_begin) / args.rounds;
    });
  working.clear();
  return cost_of_rounds(std::move(rounds), cpu_seconds);
}

}  // namespace trifold
