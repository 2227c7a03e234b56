// etcd's v3 JSON gateway (etcd 3.4, /v3/...): calls that go to the next member of its cluster when one does not answer.
// Without TLS and users: etcd's ports are to be reachable by the cluster's machines only.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "parallel/servers/registry/http_client.h"

namespace trifold {

struct EtcdEndpoints {
  std::vector<std::string> urls = {};                                // "http://10.0.0.1:2379"; http:// may be left out
  std::chrono::milliseconds patience = std::chrono::seconds(4);      // for an answer of any of them
  std::chrono::milliseconds one_patience = std::chrono::seconds(1);  // of one
};

class EtcdGateway {
 public:
  explicit EtcdGateway(EtcdEndpoints endpoints);

  enum class Repeat {
    freely,   // it may happen twice
    if_lost,  // only when it is certain that it did not happen
  };
  // Unreachable when nobody answered; an Error when etcd says no.
  nlohmann::json call(std::string_view path, const nlohmann::json& body, Repeat repeat);

  // Of the member that answered last. When it goes wrong, next_endpoint() and again.
  std::unique_ptr<HttpStream> stream(std::string_view path, const nlohmann::json& body) const;
  void next_endpoint() { current_ = (current_ + 1) % endpoints_.urls.size(); }

  const EtcdEndpoints& endpoints() const { return endpoints_; }

 private:
  HttpQuestion question(std::string_view path, const nlohmann::json& body) const;

  EtcdEndpoints endpoints_;
  std::size_t current_ = 0;
  HttpClient http_;
};

}  // namespace trifold
