#include "parallel/servers/wire/connection_watch.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace trifold {
namespace {

using std::chrono::milliseconds;

// What comes besides messages and is not counted: the handshake, and what ZeroMQ has read and not yet handed on.
constexpr std::uint64_t kSlack = std::uint64_t{1} << 20;
// At most, around the bytes of a part: its frame, and CURVE's box.
constexpr std::uint64_t kAroundPart = 64;

// Looks are as far apart as a quick peer allows.
constexpr std::uint64_t kFastestPerMs = std::uint64_t{4} << 20;
constexpr milliseconds kLongest = milliseconds(100);
constexpr milliseconds kShortest = milliseconds(1);
constexpr milliseconds kUntilAnswered = milliseconds(2);
// ZeroMQ takes turns among connections, and learns of new ones within 100 parts.
constexpr std::uint64_t kTurnsBeyondConnections = 256;

std::optional<std::uint64_t> received_by(int descriptor) {
  ::tcp_info info = {};
  ::socklen_t length = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return info.tcpi_bytes_received;
}

// Of what was received, what ZeroMQ has not read yet.
std::uint64_t unread_of(int descriptor) {
  int bytes = 0;
  return ::ioctl(descriptor, SIOCINQ, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

std::uint64_t cookie_of(int descriptor) {
  std::uint64_t cookie = 0;
  ::socklen_t length = sizeof cookie;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

std::string peer_of(int descriptor) {
  ::sockaddr_storage address = {};
  ::socklen_t length = sizeof address;
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (::getpeername(descriptor, reinterpret_cast<::sockaddr*>(&address), &length) != 0) return "somebody";
  const auto& four = reinterpret_cast<const ::sockaddr_in&>(address);
  const auto& six = reinterpret_cast<const ::sockaddr_in6&>(address);
  const bool is_six = address.ss_family == AF_INET6;
  const void* host = is_six ? static_cast<const void*>(&six.sin6_addr) : &four.sin_addr;
  if (::inet_ntop(address.ss_family, host, text.data(), text.size()) == nullptr) return "somebody";
  return text.data();
}

}  // namespace

ConnectionWatch::ConnectionWatch(std::size_t largest, int waiting, Refusals& refusals)
    : limit_(largest + kSlack), limit_queue_(limit_ * static_cast<std::uint64_t>(waiting + 1)), refusals_(refusals) {}

void ConnectionWatch::took(int descriptor, std::size_t bytes, std::size_t parts) {
  if (descriptor < 0) return;
  const auto at = static_cast<std::size_t>(descriptor);
  const std::lock_guard lock(mutex_);
  // Perhaps before anybody said that it was opened.
  if (at >= taken_.size()) taken_.resize(at + 1);
  taken_[at].messages += 1;
  taken_[at].bytes += bytes + parts * kAroundPart;
  ++messages_;
}

void ConnectionWatch::found_empty() {
  const std::lock_guard lock(mutex_);
  ++empties_;
  if (!is_asked_) return;
  is_asked_ = false;
  asked_.take();
}

void ConnectionWatch::opened(int descriptor) {
  const Clock::time_point now = Clock::now();
  open_[descriptor] = {.cookie = cookie_of(descriptor), .due = now};
}

void ConnectionWatch::closed(int descriptor) {
  open_.erase(descriptor);
}

std::optional<milliseconds> ConnectionWatch::look() {
  if (open_.empty()) return std::nullopt;
  const Clock::time_point now = Clock::now();
  Clock::time_point next = now + kLongest;
  for (auto& [descriptor, connection] : open_) {
    if (connection.due <= now) look_at(descriptor, connection, now);
    next = std::min(next, connection.due);
  }
  return std::max(std::chrono::ceil<milliseconds>(next - now), kShortest);
}

void ConnectionWatch::look_at(int descriptor, Connection& connection, Clock::time_point now) {
  connection.due = now + kLongest;
  if (connection.cut) return;
  // In this order: what was taken is of this connection, and among what came.
  const Progress progress = progress_of(descriptor, false);
  if (connection.cookie == 0 || cookie_of(descriptor) != connection.cookie) return;
  const std::optional<std::uint64_t> received = received_by(descriptor);
  if (!received) return;

  const auto at = static_cast<std::size_t>(descriptor);
  if (at >= known_.size()) known_.resize(at + 1);
  Taken& known = known_[at];
  if (progress.taken.messages != known.messages) {
    // Rather too much than too little, which would add up over weeks; never more than came.
    connection.accounted = std::min(connection.accounted + progress.taken.bytes - known.bytes, *received);
    connection.asked_at.reset();
    known = progress.taken;
  }

  std::uint64_t bytes = *received - std::min(*received, connection.accounted);
  if (bytes > limit_) bytes -= std::min(bytes, unread_of(descriptor));
  if (bytes <= limit_) {
    connection.asked_at.reset();
    const auto until_full = static_cast<milliseconds::rep>((limit_ - bytes) / kFastestPerMs);
    connection.due = now + std::clamp(milliseconds(until_full), kShortest, kLongest);
    return;
  }
  connection.due = now + kUntilAnswered;
  if (bytes > limit_queue_ || (connection.asked_at && none_waits(*connection.asked_at, progress)))
    cut_off(descriptor, connection, bytes);
  else if (!connection.asked_at)
    connection.asked_at = progress_of(descriptor, true);
}

ConnectionWatch::Progress ConnectionWatch::progress_of(int descriptor, bool ask) {
  const auto at = static_cast<std::size_t>(descriptor);
  const std::lock_guard lock(mutex_);
  if (ask && !is_asked_) asked_.set();
  is_asked_ = is_asked_ || ask;
  return {.taken = at < taken_.size() ? taken_[at] : Taken(), .messages = messages_, .empties = empties_};
}

// Of the connection nothing was taken since: then nothing was complete when it was asked.
bool ConnectionWatch::none_waits(const Progress& asked_at, const Progress& now) const {
  return now.empties > asked_at.empties ||
         now.messages > asked_at.messages + 2 * open_.size() + kTurnsBeyondConnections;
}

void ConnectionWatch::cut_off(int descriptor, Connection& connection, std::uint64_t bytes) {
  // ZeroMQ may close it at any time, and the number be given to another; what is held here stays what it is. Where
  // there is no descriptor left, the look before has to do.
  const int held = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  const int socket = held < 0 ? descriptor : held;
  if (cookie_of(socket) == connection.cookie) {
    refusals_.note(fmt::format("cut off {}: {} bytes of a message came, its end did not, and {} are allowed",
                               peer_of(socket), bytes, limit_));
    // This resets the connection: neither side hears more of it, not even what has come and is unread, and ZeroMQ drops
    // the message. After a shutdown it would read that first, and the peer might hear of it only minutes later.
    const ::sockaddr nobody = {.sa_family = AF_UNSPEC, .sa_data = {}};
    if (::connect(socket, &nobody, sizeof nobody) != 0) ::shutdown(socket, SHUT_RDWR);
  }
  if (held >= 0) ::close(held);
  connection.cut = true;
}

}  // namespace trifold
