#include "parallel/servers/registry/etcd_gateway.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "parallel/servers/registry/registry.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;
using EtcdClock = std::chrono::steady_clock;

struct Refusal {
  bool passing = false;  // another member, or the same a moment later, may do it
  bool undone = false;   // it certainly did not happen
  std::string why = {};
};

// Both forms: {"error": "...", "code": 14} and, within streams, {"error": {"message": "...", "grpc_code": 14}}.
Refusal refusal_of(const HttpAnswer& answer, const nlohmann::json& json) {
  Refusal refusal{.why = fmt::format("HTTP status {}", answer.status)};
  std::int64_t code = 0;
  if (json.is_object() && json.contains("error")) {
    const nlohmann::json& error = json["error"];
    const nlohmann::json& from = error.is_object() ? error : json;
    const auto message = from.value(error.is_object() ? "message" : "error", nlohmann::json());
    const auto number = from.value(error.is_object() ? "grpc_code" : "code", nlohmann::json());
    if (message.is_string()) refusal.why = message.get<std::string>();
    if (number.is_number_integer()) code = number.get<std::int64_t>();
  }
  constexpr int kDeadlineExceeded = 4, kUnavailable = 14;
  refusal.passing = answer.status >= 500 || code == kDeadlineExceeded || code == kUnavailable;
  // Said before anything is proposed to the cluster: the question asks for it (see question()).
  refusal.undone = refusal.why.find("etcdserver: no leader") != std::string::npos;
  return refusal;
}

}  // namespace

EtcdGateway::EtcdGateway(EtcdEndpoints endpoints) : endpoints_(std::move(endpoints)) {
  if (endpoints_.urls.empty()) fail_input("no address of etcd is given: as in http://10.0.0.1:2379");
  for (std::string& url : endpoints_.urls) {
    if (url.starts_with("https://"))
      fail_input("etcd at '{}': TLS to etcd is not supported; give an address that begins with http://", url);
    if (!url.starts_with("http://")) url = "http://" + url;
    while (url.ends_with('/')) url.pop_back();
  }
}

HttpQuestion EtcdGateway::question(std::string_view path, const nlohmann::json& body) const {
  return {.url = fmt::format("{}{}", endpoints_.urls[current_], path),
          .body = body.dump(),
          // A member that is cut off from the others says so at once, and ends its watches.
          .headers = {"Grpc-Metadata-hasleader: true"},
          .timeout = endpoints_.one_patience};
}

nlohmann::json EtcdGateway::call(std::string_view path, const nlohmann::json& body, Repeat repeat) {
  const auto deadline = EtcdClock::now() + endpoints_.patience;
  std::string why;
  for (std::size_t attempt = 1; EtcdClock::now() < deadline; ++attempt) {
    HttpQuestion asked = question(path, body);
    asked.only_once = repeat == Repeat::if_lost;
    asked.timeout = std::min(asked.timeout, std::chrono::ceil<std::chrono::milliseconds>(deadline - EtcdClock::now()));
    // What may have happened must not happen twice, so its one answer is worth more patience.
    if (asked.only_once) asked.timeout = std::max(asked.timeout, endpoints_.patience / 2);
    bool undone = false;
    try {
      const HttpAnswer answer = http_.post(asked);
      auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
      if (answer.status == 200 && json.is_object() && !json.contains("error")) return json;
      const Refusal refusal = refusal_of(answer, json);
      if (!refusal.passing) fail_runtime("etcd refuses: {}", refusal.why);
      undone = refusal.undone;
      why = fmt::format("{}: {}", asked.url, refusal.why);
    } catch (const HttpFailure& failure) {
      undone = !failure.sent();
      why = failure.what();
    }
    next_endpoint();
    if (!undone && repeat == Repeat::if_lost) break;
    if (attempt % endpoints_.urls.size() == 0) std::this_thread::sleep_for(100ms);  // all were asked
  }
  throw Unreachable(fmt::format("etcd does not answer ({})", why));
}

std::unique_ptr<HttpStream> EtcdGateway::stream(std::string_view path, const nlohmann::json& body) const {
  return std::make_unique<HttpStream>(question(path, body));
}

}  // namespace trifold
