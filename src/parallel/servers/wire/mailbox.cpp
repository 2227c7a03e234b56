#include "parallel/servers/wire/mailbox.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <zmq.hpp>

#include "core/error.h"
#include "parallel/servers/wire/connection_watch.h"
#include "parallel/servers/wire/event_descriptor.h"
#include "parallel/servers/wire/frame.h"
#include "parallel/servers/wire/gatekeeper.h"
#include "parallel/servers/wire/incoming_peers.h"
#include "parallel/servers/wire/payload_sharing.h"
#include "parallel/servers/wire/ready_sockets.h"
#include "parallel/servers/wire/tcp_address.h"

namespace trifold {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLingerMs = 1000;
// A dead peer is noticed by bytes that its machine does not confirm; TCP's own probes see to it that there are some.
// ZeroMQ's pings would do so, too, but when it pings a peer that is gone while it does not read from it, since enough
// messages wait, it aborts (4.3.4; libzmq's issues 3937, 4364).
constexpr int kUnconfirmedMs = 10'000;
constexpr int kProbeEveryS = 2;
constexpr int kProbes = 5;
constexpr int kConnectMs = 3000;
constexpr int kReconnectMs = 100;
constexpr int kReconnectMostMs = 2000;
// Messages of a peer that wait here, whatever their size: what is beyond stays with the peer, by TCP's window.
constexpr int kWaitingHere = 16;
// ZMQ_ZERO_COPY_RECV, which zmq.h names only in drafts. Small parts would each hold on to the 18 kB that were read with
// them, which a peer that sends them singly could make a burden.
constexpr int kZeroCopyReceive = 10;
constexpr std::size_t kCopied = 2048;  // bytes; sharing costs more below
constexpr std::size_t kAlignment = 8;
constexpr const char* kZapDomain = "trifold";

// ZeroMQ's word that it is done with a payload, on its thread.
struct HeldPayload {
  std::shared_ptr<const void> owner;
  std::atomic<bool> ready = false;  // orders the thread that hands over before the one that lets go
};

void let_go(void* /*bytes*/, void* held) {
  auto* payload = static_cast<HeldPayload*>(held);
  (void)payload->ready.load(std::memory_order_acquire);
  delete payload;
}

zmq::message_t part_of(const SharedPlace& place) {
  return {&place, sizeof place};
}

std::span<const std::byte> bytes_of(const zmq::message_t& part) {
  return {part.data<std::byte>(), part.size()};
}

zmq::message_t part_of(const Payload& payload) {
  if (payload.size() <= kCopied) return {payload.bytes().data(), payload.size()};
  auto* held = new HeldPayload{.owner = payload.owner()};
  held->ready.store(true, std::memory_order_release);
  // ZeroMQ only reads what it is given to send.
  return {const_cast<std::byte*>(payload.bytes().data()), payload.size(), let_go, held};
}

Payload payload_of(zmq::message_t part) {
  const auto* bytes = part.data<std::byte>();
  const std::size_t size = part.size();
  if (size == 0) return {};
  // Small messages lie in the midst of what was read at once; numbers want to be aligned.
  if (size <= kCopied || reinterpret_cast<std::uintptr_t>(bytes) % kAlignment != 0) {
    const auto copy = std::make_shared_for_overwrite<std::byte[]>(size);
    std::memcpy(copy.get(), bytes, size);
    return {copy, {copy.get(), size}};
  }
  const auto owner = std::make_shared<zmq::message_t>(std::move(part));
  return {owner, {owner->data<std::byte>(), size}};
}

std::string peer_address(const zmq::message_t& part) {
  const char* address = zmq_msg_gets(part.handle(), "Peer-Address");
  return address == nullptr ? "somebody" : address;
}

}  // namespace

struct Mailbox::Impl {
  struct Connection {
    PeerId peer;
    zmq::socket_t socket;
  };
  enum class Taken { nothing, refused, own, message };  // own: it was for this mailbox

  MailboxOptions options;
  std::string address = {};
  MailboxCounts counts = {};
  Refusals refusals = {};
  std::atomic<bool> wake_up = false;
  EventDescriptor woken = {};  // set after wake_up is
  PeerId next_peer = 1;
  IncomingPeers incoming = IncomingPeers();
  PayloadSharing sharing;
  // Sockets go before their context, which waits for what they still send.
  zmq::context_t context = {};
  zmq::socket_t listener = {};                                    // not open: nobody can call here
  std::vector<Connection> connections = {};                       // those made from here
  ConnectionWatch watch;                                          // of the listener's
  ReadySockets ready = ReadySockets(woken.get(), watch.asked());  // the listener, connections
  std::unique_ptr<Gatekeeper> gatekeeper = {};                    // goes before the listener

  explicit Impl(MailboxOptions from)
      : options(std::move(from)),
        sharing(options.credentials || options.compress ? 0 : options.shared_blocks),
        watch(kLargestHead + options.largest_message, waiting_here(), refusals) {
    if (zmq_ctx_set(context.handle(), kZeroCopyReceive, 0) != 0) throw zmq::error_t();
    if (!options.listen.empty()) listen(tcp_address_from(options.listen));
    watch_sockets();
  }

  int waiting_here() const { return std::min(options.queued_messages, kWaitingHere); }

  void configure(zmq::socket_t& socket, const TcpAddress& where) const {
    namespace opt = zmq::sockopt;
    const auto largest = static_cast<std::int64_t>(std::max(options.largest_message, kLargestHead));
    // Of a part. How much all parts of a message may be, `watch` sees to where others call; not where this one calls
    // others, who are members with a key that is trusted, or of this machine.
    socket.set(opt::maxmsgsize, largest);
    socket.set(opt::sndhwm, options.queued_messages);
    socket.set(opt::rcvhwm, waiting_here());
    socket.set(opt::linger, kLingerMs);
    socket.set(opt::handshake_ivl, static_cast<int>(options.handshake.count()));
    socket.set(opt::tcp_maxrt, kUnconfirmedMs);
    socket.set(opt::tcp_keepalive, 1);
    socket.set(opt::tcp_keepalive_idle, kProbeEveryS);
    socket.set(opt::tcp_keepalive_intvl, kProbeEveryS);
    socket.set(opt::tcp_keepalive_cnt, kProbes);
    socket.set(opt::ipv6, where.ipv6());
  }

  void listen(const TcpAddress& where) {
    if (!options.credentials && !where.loopback())
      fail_input(
          "without keys '{}' cannot be listened on, since anybody could speak there: make keys with 'trifold keys', or "
          "listen on tcp://127.0.0.1:{}",
          options.listen, where.port);
    listener = zmq::socket_t(context, zmq::socket_type::router);
    configure(listener, where);
    listener.set(zmq::sockopt::router_mandatory, true);  // who is gone is an answer of send()
    listener.set(zmq::sockopt::backlog, 512);
    std::optional<std::vector<std::string>> trusted;
    if (options.credentials) {
      listener.set(zmq::sockopt::curve_server, true);
      listener.set(zmq::sockopt::curve_secretkey, options.credentials->own.secret_key);
      listener.set(zmq::sockopt::zap_domain, kZapDomain);
      trusted = options.credentials->trusted;
    }
    gatekeeper = std::make_unique<Gatekeeper>(context, listener, trusted, watch, refusals);
    try {
      listener.bind(where.text());
    } catch (const zmq::error_t& error) {
      fail_input("cannot listen on '{}': {}; choose another address or port", options.listen, error.what());
    }
    address = listener.get(zmq::sockopt::last_endpoint);
  }

  void watch_sockets() {
    std::vector<int> descriptors;
    if (listener) descriptors.push_back(listener.get(zmq::sockopt::fd));
    for (Connection& connection : connections) descriptors.push_back(connection.socket.get(zmq::sockopt::fd));
    ready.watch(descriptors);
  }

  std::vector<Connection>::iterator connection_of(PeerId peer) {
    return std::ranges::find(connections, peer, &Connection::peer);
  }

  // An address comes from a registry, which may have been told anything.
  void check_peer(const std::string& to, const TcpAddress& where, const std::string& public_key) const {
    if (options.credentials) {
      if (public_key.empty()) fail_input("'{}' has no public key, and only members with keys are called", to);
      if (!std::ranges::count(options.credentials->trusted, public_key))
        fail_input("the key '{}' of '{}' is not in the list of trusted keys: add it there", public_key, to);
      return;
    }
    if (!public_key.empty()) fail_input("'{}' speaks only to members with a key, and none was given here", to);
    if (!where.loopback())
      fail_input(
          "without keys '{}' cannot be called, since anybody could answer there: make keys with 'trifold keys', or "
          "stay on this machine (tcp://127.0.0.1)",
          to);
  }

  PeerId connect(const std::string& to, const std::string& public_key) {
    const TcpAddress where = tcp_address_from(to);
    check_peer(to, where, public_key);
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    configure(socket, where);
    if (options.credentials) {
      socket.set(zmq::sockopt::curve_serverkey, public_key);
      socket.set(zmq::sockopt::curve_publickey, options.credentials->own.public_key);
      socket.set(zmq::sockopt::curve_secretkey, options.credentials->own.secret_key);
    }
    socket.set(zmq::sockopt::connect_timeout, kConnectMs);
    socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
    socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMostMs);
    try {
      socket.connect(where.text());
    } catch (const zmq::error_t& error) {
      fail_input("cannot call '{}': {}", to, error.what());
    }
    connections.push_back({next_peer++, std::move(socket)});
    watch_sockets();
    return connections.back().peer;
  }

  void forget(PeerId peer) {
    incoming.forget(peer);
    sharing.forget(peer);
  }

  void disconnect(PeerId peer) {
    forget(peer);
    if (const auto found = connection_of(peer); found != connections.end()) connections.erase(found);
    watch_sockets();
  }

  bool send(PeerId to, const Message& message) {
    if (message.payload.size() > options.largest_message)
      fail_runtime("a message of {} bytes cannot be sent: {} are allowed", message.payload.size(),
                   options.largest_message);
    if (const std::optional<Message> answer = sharing.answer_to(to); answer && put(to, *answer)) sharing.answered(to);
    std::optional<SharedPlace> place;
    if (sharing.worth_it(message.payload)) {
      if (const std::optional<Message> offer = sharing.offer_to(to); offer && put(to, *offer)) sharing.offered(to);
      place = sharing.place_for(to, message.payload);
    }
    const std::optional<std::size_t> bytes = put(to, message, place);
    if (!bytes) {
      if (place) sharing.not_sent(*place);
      return false;
    }
    counts.sent_bytes += *bytes;
    if (place) counts.shared_bytes += place->bytes;
    return true;
  }

  // The frame's bytes, with the payload wherever it is; null: it cannot be sent.
  std::optional<std::size_t> put(PeerId to, const Message& message, const std::optional<SharedPlace>& place = {}) {
    const auto connection = connection_of(to);
    const std::string* name = connection == connections.end() ? incoming.name_of(to) : nullptr;
    if (connection == connections.end() && name == nullptr) {
      sharing.forget(to);
      return std::nullopt;
    }
    zmq::socket_t& socket = name == nullptr ? connection->socket : listener;
    ready.touched(name != nullptr ? 0
                                  : static_cast<std::size_t>(connection - connections.begin()) + (listener ? 1 : 0));

    const Frame frame = encode_frame(message, place              ? PayloadForm::elsewhere
                                              : options.compress ? PayloadForm::compressed
                                                                 : PayloadForm::plain);
    try {
      using enum zmq::send_flags;
      if (name != nullptr && !socket.send(zmq::buffer(*name), sndmore | dontwait)) return std::nullopt;
      const bool has_payload = !frame.payload.empty();
      if (!socket.send(zmq::buffer(frame.head), has_payload ? sndmore | dontwait : dontwait)) return std::nullopt;
      if (has_payload && !socket.send(place ? part_of(*place) : part_of(frame.payload), dontwait)) return std::nullopt;
    } catch (const zmq::error_t& error) {
      if (error.num() != EHOSTUNREACH) throw;
      forget(to);
      return std::nullopt;
    }
    return frame.bytes();
  }

  // A message from one socket, if there is one. 0: the listener's.
  Taken take(std::size_t index, Received& received) {
    const bool is_listener = listener && index == 0;
    Connection* connection = is_listener ? nullptr : &connections[index - (listener ? 1 : 0)];
    zmq::socket_t& socket = is_listener ? listener : connection->socket;
    zmq::message_t name, head, payload;
    const auto more = [&](zmq::message_t& part, bool first) {
      if (!first && !socket.get(zmq::sockopt::rcvmore)) return false;
      return socket.recv(part, zmq::recv_flags::dontwait).has_value();
    };
    if (is_listener ? !more(name, true) || !more(head, false) : !more(head, true)) return Taken::nothing;
    more(payload, false);
    std::size_t bytes = head.size() + payload.size();
    std::size_t beyond = 0;
    for (zmq::message_t part; more(part, false);) {
      ++beyond;
      bytes += part.size();
    }
    if (is_listener) watch.took(zmq_msg_get(head.handle(), ZMQ_SRCFD), bytes, 2 + beyond);

    // Only who says something that makes sense has a number.
    const auto from = [&] {
      return is_listener ? incoming.number_of(name.to_string_view(), next_peer) : connection->peer;
    };
    FrameReading reading;
    if (beyond > 0) {
      reading.why_not = "it has too many parts";
    } else if (!says_elsewhere(bytes_of(head))) {
      reading = decode_frame(bytes_of(head), payload_of(std::move(payload)), options.largest_message);
    } else if (const std::optional<Payload> found = sharing.payload_at(bytes_of(payload))) {
      bytes = head.size() + found->size();
      reading = decode_frame(bytes_of(head), *found, options.largest_message);
    } else if (const std::optional<Message> unknown = PayloadSharing::unknown(bytes_of(payload))) {
      put(from(), *unknown);
      return Taken::own;
    } else {
      reading.why_not = "it does not say where its payload is";
    }
    if (reading.message && is_of_sharing(reading.message->kind)) {
      if (share(from(), *reading.message)) return Taken::own;
      reading = {.why_not = "it offers nothing that could be shared"};
    }
    if (!reading.message) {
      refusals.note(fmt::format("refused a message from {}: {}", peer_address(head), reading.why_not));
      return Taken::refused;
    }
    received.message = std::move(*reading.message);
    received.from = from();
    counts.received_bytes += bytes;
    return Taken::message;
  }

  static bool is_of_sharing(MessageKind kind) {
    return kind == MessageKind::share || kind == MessageKind::share_answer;
  }

  // False: it makes no sense.
  bool share(PeerId from, const Message& message) {
    try {
      if (message.kind == MessageKind::share)
        sharing.take_offer(from, message);
      else
        sharing.take_answer(from, message);
    } catch (const nlohmann::json::exception&) {
      return false;
    }
    return true;
  }

  std::optional<Received> receive(std::chrono::milliseconds timeout) {
    const Clock::time_point deadline = Clock::now() + timeout;
    for (bool ended = false;;) {
      if (wake_up.exchange(false)) {
        woken.take();
        return std::nullopt;
      }
      if (const std::optional<std::size_t> socket = ready.next()) {
        Received received;
        const Taken taken = take(*socket, received);
        if (taken == Taken::message) {
          ready.heard(*socket);
          return received;
        }
        if (taken == Taken::nothing) {
          ready.nothing_from(*socket);
          if (listener && *socket == 0) watch.found_empty();
          ended = timeout.count() == 0;  // that was a look
        }
        if (taken != Taken::nothing && Clock::now() >= deadline) return std::nullopt;
        continue;
      }
      if (ended) return std::nullopt;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      ended = left.count() <= 0;
      if (!ready.wait(std::max(left, std::chrono::milliseconds(0)))) continue;
      wake_up = false;
      woken.take();
      return std::nullopt;
    }
  }
};

Mailbox::Mailbox(MailboxOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Mailbox::~Mailbox() = default;

const std::string& Mailbox::address() const {
  return impl_->address;
}

PeerId Mailbox::connect(const std::string& address, const std::string& public_key) {
  return impl_->connect(address, public_key);
}

void Mailbox::disconnect(PeerId peer) {
  impl_->disconnect(peer);
}

bool Mailbox::send(PeerId to, const Message& message) {
  return impl_->send(to, message);
}

std::optional<Received> Mailbox::receive(std::chrono::milliseconds timeout) {
  try {
    return impl_->receive(timeout);
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return std::nullopt;  // a signal: the caller may want to look
    throw;
  }
}

void Mailbox::wake() {
  impl_->wake_up = true;
  impl_->woken.set();
}

const MailboxCounts& Mailbox::counts() const {
  impl_->counts.refused = impl_->refusals.count();
  return impl_->counts;
}

}  // namespace trifold
