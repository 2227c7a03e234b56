#include "parallel/servers/wire/gatekeeper.h"

#include <array>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <zmq.hpp>

#include "core/error.h"
#include "parallel/servers/wire/connection_watch.h"
#include "parallel/servers/wire/event_descriptor.h"

namespace trifold {
namespace {

constexpr const char* kZapAddress = "inproc://zeromq.zap.01";
constexpr const char* kArrivalsAddress = "inproc://arrivals";
constexpr int kNoted = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

// All parts of a message that has begun.
std::vector<zmq::message_t> rest_of(zmq::socket_t& socket) {
  std::vector<zmq::message_t> parts;
  do {
    zmq::message_t part;
    if (!socket.recv(part, zmq::recv_flags::dontwait)) return {};
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return parts;
}

std::string as_z85(const zmq::message_t& key) {
  std::array<char, 41> text = {};
  if (key.size() != 32 || zmq_z85_encode(text.data(), key.data<std::uint8_t>(), key.size()) == nullptr) return {};
  return text.data();
}

}  // namespace

struct Gatekeeper::Impl {
  zmq::socket_t& watched;
  ConnectionWatch& watch;
  Refusals& refusals;
  std::set<std::string> trusted = {};
  zmq::socket_t questions = {};  // of ZAP; not open where connections are plain
  zmq::socket_t arrivals = {};
  EventDescriptor stop = {};
  std::thread thread = {};

  void run() {
    std::vector<zmq::pollitem_t> items = {{nullptr, stop.get(), ZMQ_POLLIN, 0}, {arrivals.handle(), 0, ZMQ_POLLIN, 0}};
    if (questions) items.push_back({questions.handle(), 0, ZMQ_POLLIN, 0});
    std::chrono::milliseconds wait(-1);
    while (!stop.take()) try {
        zmq::poll(items, wait);
        if (questions) answer(rest_of(questions));
        while (note(rest_of(arrivals))) continue;
        wait = watch.look().value_or(std::chrono::milliseconds(-1));
      } catch (const zmq::error_t& error) {
        if (error.num() == EINTR) continue;
        refusals.note(fmt::format("nobody is let in any more: {}", error.what()));
        return;
      }
  }

  // ZAP 1.0, RFC 27: version, request id, domain, address, identity, mechanism, credentials.
  void answer(const std::vector<zmq::message_t>& question) {
    if (question.empty()) return;
    const bool whole = question.size() == 7 && question[5].to_string_view() == "CURVE";
    const std::string key = whole ? as_z85(question[6]) : "";
    const bool known = trusted.contains(key);
    if (!known && question.size() > 3)
      last_refused =
          fmt::format("{} with key '{}', which is not in the list of trusted keys", question[3].to_string_view(), key);
    const std::array<std::string_view, 6> parts = {"1.0",
                                                   question.size() > 1 ? question[1].to_string_view() : "",
                                                   known ? "200" : "400",
                                                   known ? "" : "key is not trusted",
                                                   known ? std::string_view(key) : "",
                                                   ""};
    for (std::size_t i = 0; i < parts.size(); ++i)
      questions.send(zmq::const_buffer(parts[i].data(), parts[i].size()),
                     i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }

  // False: there was none.
  bool note(const std::vector<zmq::message_t>& event) {
    if (event.size() != 2 || event[0].size() != sizeof(std::uint16_t) + sizeof(std::uint32_t)) return !event.empty();
    std::uint16_t kind = 0;
    std::uint32_t value = 0;
    std::memcpy(&kind, event[0].data(), sizeof kind);
    std::memcpy(&value, event[0].data<std::byte>() + sizeof kind, sizeof value);
    const std::string where = fmt::format("refused a connection to {}", event[1].to_string_view());
    switch (kind) {
      case ZMQ_EVENT_ACCEPTED:
        ends_before[value] = handshakes_ended;
        watch.opened(static_cast<int>(value));
        break;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        ++handshakes_ended;
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        ++handshakes_ended;
        refusals.note(fmt::format("{}: {}", where, last_refused));
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        ++handshakes_ended;
        refusals.note(fmt::format("{}: it does not shake hands as members do ({:#x})", where, value));
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        ++handshakes_ended;
        refusals.note(fmt::format("{}: it ended, or had not shaken hands in time", where));
        break;
      case ZMQ_EVENT_DISCONNECTED:
        watch.closed(static_cast<int>(value));
        // Of some that speak another protocol ZeroMQ says no more than this.
        if (const auto found = ends_before.find(value); found != ends_before.end()) {
          if (found->second == handshakes_ended) refusals.note(fmt::format("{}: it spoke something else", where));
          ends_before.erase(found);
        }
        break;
      default:
        break;
    }
    return true;
  }

  // By descriptor of an open connection: how many handshakes, of whomever, had come to an end when it began. If none
  // has since, neither has its own.
  std::map<std::uint32_t, std::uint64_t> ends_before = {};
  std::uint64_t handshakes_ended = 0;
  std::string last_refused = {};  // who, for the note on the handshake that then fails
};

Gatekeeper::Gatekeeper(zmq::context_t& context, zmq::socket_t& socket,
                       const std::optional<std::vector<std::string>>& trusted, ConnectionWatch& watch,
                       Refusals& refusals)
    : impl_(new Impl{.watched = socket, .watch = watch, .refusals = refusals}) {
  if (trusted) {
    impl_->trusted.insert(trusted->begin(), trusted->end());
    impl_->questions = zmq::socket_t(context, zmq::socket_type::rep);
    impl_->questions.set(zmq::sockopt::linger, 0);
    impl_->questions.bind(kZapAddress);
  }
  if (zmq_socket_monitor(socket.handle(), kArrivalsAddress, kNoted) != 0) throw zmq::error_t();
  impl_->arrivals = zmq::socket_t(context, zmq::socket_type::pair);
  impl_->arrivals.set(zmq::sockopt::linger, 0);
  impl_->arrivals.connect(kArrivalsAddress);
  // Signals are for the threads that know what to do with them.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Gatekeeper::~Gatekeeper() {
  // First: ZeroMQ's thread would wait for somebody to read what it notes.
  zmq_socket_monitor(impl_->watched.handle(), nullptr, 0);
  impl_->stop.set();
  impl_->thread.join();
}

}  // namespace trifold
