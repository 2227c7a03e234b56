#include "runtime/ps/cluster_host.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>

#include <spdlog/spdlog.h>

#include "parallel/ps/registry/local_registry.h"
#include "parallel/ps/registry/registry_service.h"
#include "runtime/core/error.h"

namespace trifold {
namespace {

constexpr std::chrono::seconds kTimeToLeave{10};
constexpr std::chrono::milliseconds kLookAtChildren{50};

}  // namespace

struct ClusterHost::Parts {
  struct Child {
    ChildProcess process;
    const std::vector<std::string>* command;
    std::string name;  // "worker 2"
  };

  Parts(const Job& given, ClusterHostOptions given_options)
      : job(given),
        options(std::move(given_options)),
        mailbox({.listen = options.access.manager, .credentials = options.access.credentials()}) {
    if (options.access.etcd.empty()) {
      store = std::make_shared<SharedRegistryStore>(std::filesystem::path(), [this] { mailbox.wake(); });
      service = std::make_unique<RegistryService>(store);
    }
    options.access.manager = mailbox.address();
  }

  std::unique_ptr<Registry> open_registry() const {
    if (store) return std::make_unique<LocalRegistry>(store);
    return options.access.open_registry();
  }

  ClusterManager& open(const ServicePlan& plan) {
    const auto registry = open_registry();
    registry->put(kJobName, to_json_text(job));
    registry->put(kServiceName, to_text(plan));
    client =
        std::make_unique<ServerClient>(ServerClientOptions{.tensors = plan.tensors,
                                                           .shards = static_cast<int>(plan.sync.shards),
                                                           .mailbox = {.credentials = options.access.credentials()}});
    MemberInfo self{.id = "manager", .role = "manager", .address = mailbox.address()};
    if (const auto credentials = options.access.credentials()) self.public_key = credentials->own.public_key;
    manager = std::make_unique<ClusterManager>(
        ClusterManager::Args{.self = std::move(self),
                             .mailbox = &mailbox,
                             .registry = open_registry(),
                             .service = service.get(),
                             .layout = plan.layout(),
                             .participation = plan.participation(),
                             .servers = options.servers,
                             .workers = options.workers,
                             .backup = static_cast<int>(plan.sync.backup),
                             .combine = plan.sync.combine,
                             .on_view = [this](const View& view) { client->set_view(view); }});
    for (int i = 0; i < options.servers; ++i) start(options.server_command, fmt::format("server {}", i + 1));
    for (int i = 0; i < options.workers; ++i) start(options.worker_command, fmt::format("worker {}", i + 1));
    return *manager;
  }

  // On the main thread: children die with the thread that started them.
  void start(const std::vector<std::string>& command, const std::string& name) {
    if (command.empty()) return;
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--manager", options.access.manager});
    children.push_back({ChildProcess(std::move(words)), &command, name});
  }

  // Called by whoever waits for the cluster, now and then.
  void look_after_children() {
    for (std::size_t i = 0; i < children.size();) {
      const std::optional<ProcessEnd> end = children[i].process.poll();
      if (!end) {
        ++i;
        continue;
      }
      const Child gone = std::move(children[i]);
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
      if (!end->failed()) continue;
      // A job that one cannot do, nobody can.
      if (end->exit_code == 2) throw Error(Fault::input, "");
      spdlog::warn("{} {}; {}", gone.name, to_string(*end),
                   replaced < options.replacements ? "it is replaced" : "the others go on");
      if (replaced++ < options.replacements) start(*gone.command, gone.name);
    }
    const bool started = !options.worker_command.empty();
    if (started &&
        std::ranges::none_of(children, [&](const Child& child) { return child.command == &options.worker_command; }))
      throw Error(Fault::rank_lost, "all workers are gone; resume the run to go on from its last checkpoint");
  }

  void end() {
    if (!manager) return;
    if (!manager->end(kTimeToLeave)) spdlog::warn("some servers or workers did not answer that the job is over");
    const auto deadline = std::chrono::steady_clock::now() + kTimeToLeave;
    while (std::ranges::any_of(children, [](Child& child) { return !child.process.poll(); }) &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(kLookAtChildren);
    children.clear();
    // Another job of this name must not find an end that is not its own.
    manager.reset();
    const auto registry = open_registry();
    for (const char* name : {kViewName, kServiceName, kJobName}) registry->remove(name);
  }

  const Job& job;
  ClusterHostOptions options;
  Mailbox mailbox;
  std::shared_ptr<SharedRegistryStore> store;
  std::unique_ptr<RegistryService> service;
  std::vector<Child> children;
  int replaced = 0;
  std::unique_ptr<ServerClient> client;
  std::unique_ptr<ClusterManager> manager;  // uses all of the above
};

ClusterHostOptions cluster_of_this_machine(const Job& job, const std::filesystem::path& program, int processes) {
  const ServerSync& sync = *job.plan.servers;
  const auto cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto shards = static_cast<int>(sync.shards);
  // Clients of federated rounds are many, and small: by default as many processes as can work at a time.
  if (processes <= 0) processes = sync.federated ? std::min(shards, cores) : shards;
  ClusterHostOptions options{.access = {.manager = "tcp://127.0.0.1:*"},
                             .server_command = {program.string(), "server", "--quiet"},
                             .worker_command = {program.string(), "worker", "--quiet"},
                             .servers = static_cast<int>(sync.servers),
                             .workers = processes};
  if (job.train.threads == 0) {
    const int threads = std::max(1, cores / processes);
    options.worker_command.insert(options.worker_command.end(), {"--set", fmt::format("train.threads={}", threads)});
  }
  return options;
}

ClusterHost::ClusterHost(const Job& job, ClusterHostOptions options)
    : parts_(std::make_unique<Parts>(job, std::move(options))) {}
ClusterHost::~ClusterHost() = default;

ClusterManager& ClusterHost::open(const ServicePlan& plan) {
  return parts_->open(plan);
}

ServerClient& ClusterHost::client() {
  return *parts_->client;
}

void ClusterHost::look_after_members() {
  parts_->look_after_children();
}

void ClusterHost::end() {
  parts_->end();
}

std::string ClusterHost::address() const {
  return parts_->mailbox.address();
}

}  // namespace trifold
