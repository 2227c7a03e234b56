#include "support/etcd_cluster.h"

#include <csignal>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parallel/servers/registry/http_client.h"

namespace trifold::test {
namespace {

constexpr const char* kEtcd = "/usr/bin/etcd";

// All are taken at once, so that none is given twice; somebody else may take one before etcd does, then start() fails
// and other ones are tried.
std::vector<int> free_ports(std::size_t count) {
  std::vector<int> sockets, ports;
  for (std::size_t i = 0; i < count; ++i) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (descriptor < 0 || ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no free port");
    sockets.push_back(descriptor);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int descriptor : sockets) ::close(descriptor);
  return ports;
}

pid_t start_process(const std::vector<std::string>& command, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process != 0) return process;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before that call
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

nlohmann::json status_of(const std::string& url) {
  try {
    HttpClient http;
    const auto answer = http.post({.url = url + "/v3/maintenance/status", .body = "{}"});
    return nlohmann::json::parse(answer.body, nullptr, false);
  } catch (const HttpFailure&) {
    return {};
  }
}

}  // namespace

const char* EtcdCluster::missing() {
  return ::access(kEtcd, X_OK) == 0 ? nullptr : "there is no /usr/bin/etcd: install Debian's etcd-server";
}

EtcdCluster::EtcdCluster(int members) : members_(static_cast<std::size_t>(members)) {
  for (int attempt = 0;; ++attempt) {
    start();
    try {
      wait_until_healthy(std::chrono::seconds(30));
      return;
    } catch (const std::exception&) {
      stop();
      if (attempt == 2) throw;
    }
  }
}

EtcdCluster::~EtcdCluster() {
  stop();
}

void EtcdCluster::start() {
  const auto ports = free_ports(2 * members_.size());
  std::string cluster;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    members_[i].url = fmt::format("http://127.0.0.1:{}", ports[2 * i]);
    members_[i].peer_url = fmt::format("http://127.0.0.1:{}", ports[2 * i + 1]);
    cluster += fmt::format("{}m{}={}", i == 0 ? "" : ",", i, members_[i].peer_url);
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& [url, peer_url, process] = members_[i];
    const auto data = directory_.path() / fmt::format("m{}", i);
    std::filesystem::remove_all(data);
    members_[i].process = start_process({kEtcd,
                                         "--name",
                                         fmt::format("m{}", i),
                                         "--data-dir",
                                         data.string(),
                                         "--listen-client-urls",
                                         url,
                                         "--advertise-client-urls",
                                         url,
                                         "--listen-peer-urls",
                                         peer_url,
                                         "--initial-advertise-peer-urls",
                                         peer_url,
                                         "--initial-cluster",
                                         cluster,
                                         "--initial-cluster-state",
                                         "new",
                                         "--logger",
                                         "zap",
                                         "--log-level",
                                         "error"},
                                        directory_.path() / fmt::format("m{}.log", i));
  }
}

void EtcdCluster::stop() {
  for (int i = 0; i < static_cast<int>(members_.size()); ++i) kill(i);
}

std::vector<std::string> EtcdCluster::urls() const {
  std::vector<std::string> urls;
  for (const Member& member : members_) urls.push_back(member.url);
  return urls;
}

void EtcdCluster::wait_until_healthy(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (Member& member : members_)
    while (!status_of(member.url).contains("leader")) {
      if (::waitpid(member.process, nullptr, WNOHANG) == member.process) member.process = -1;
      if (member.process < 0 || std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("etcd does not start; see its log in " + directory_.path().string());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

int EtcdCluster::leader() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].process < 0) continue;
    const auto status = status_of(members_[i].url);
    if (status.contains("leader") && status["leader"] == status["header"]["member_id"]) return static_cast<int>(i);
  }
  return -1;
}

void EtcdCluster::kill(int member) {
  pid_t& process = members_[static_cast<std::size_t>(member)].process;
  if (process < 0) return;
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  process = -1;
}

void EtcdCluster::pause(int member) const {
  ::kill(members_[static_cast<std::size_t>(member)].process, SIGSTOP);
}

void EtcdCluster::go_on(int member) const {
  ::kill(members_[static_cast<std::size_t>(member)].process, SIGCONT);
}

}  // namespace trifold::test
