#include "runtime/cluster/cluster_host.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <sstream>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "parallel/servers/registry/election.h"
#include "parallel/servers/registry/local_registry.h"
#include "parallel/servers/registry/membership.h"
#include "parallel/servers/registry/registry_service.h"
#include "runtime/cluster/member_id.h"
#include "runtime/train/device_choice.h"
#include "runtime/train/parallel_plan.h"

namespace trifold {
namespace {

constexpr std::chrono::seconds kTimeToLeave{10};
constexpr std::chrono::milliseconds kLookAtChildren{50};
constexpr std::chrono::milliseconds kLookAtLeader{500};
// In which all members that live have renewed their leases, and those of the others have run out.
constexpr std::chrono::milliseconds kTimeToRenew{4500};
constexpr std::chrono::minutes kDoneIsKnown{1};

// Of the GPUs that this process may see, the worker's own.
std::vector<std::string> gpus_of_worker(int worker, int each) {
  if (each == 0) return {};
  std::vector<std::string> visible;
  if (const char* given = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream names(given);
    for (std::string name; std::getline(names, name, ',');) visible.push_back(name);
  }
  std::string own;
  for (int i = worker * each; i < (worker + 1) * each; ++i) {
    if (!own.empty()) own += ',';
    own += visible.empty() ? std::to_string(i) : visible.at(static_cast<std::size_t>(i));
  }
  return {"CUDA_VISIBLE_DEVICES=" + own};
}

}  // namespace

struct ClusterHost::Impl {
  struct Child {
    ChildProcess process;
    const std::vector<std::string>* command;
    std::string name;                    // "worker 2"
    std::vector<std::string> variables;  // of its environment, "NAME=value"
  };

  Impl(const Job& given, ClusterHostOptions given_options)
      : job(given),
        options(std::move(given_options)),
        mailbox({.listen = options.access.manager, .credentials = options.access.credentials()}),
        self({.id = new_member_id("manager"), .role = "manager", .address = mailbox.address()}) {
    if (const auto credentials = options.access.credentials()) self.public_key = credentials->own.public_key;
    if (options.access.etcd.empty()) {
      store = std::make_shared<SharedRegistryStore>(options.registry_file, [this] { mailbox.wake(); });
      service = std::make_unique<RegistryService>(store);
    }
    options.access.manager = mailbox.address();
  }

  // --- who leads, and what

  Lead stand_by(const std::atomic<bool>& interrupt, bool again) {
    const auto registry = open_registry();
    if (!store && !win_election(*registry, interrupt, again)) return Lead::nothing;
    const auto begun = registry->get(kJobName);
    if (again && !begun) return Lead::nothing;
    if (begun && registry->get(kViewName)) {
      spdlog::info("there is a cluster of this job already: looking who lives");
      wait_for_renewals(interrupt);
      if (interrupt) return Lead::nothing;
    }
    const auto view = registry->get(kViewName);
    const bool goes_on = begun && (!view || lives(view_from_text(view->text), *registry));
    if (goes_on && begun->text != to_json_text(job))
      fail_input("{}: the cluster at hand trains another job of this name: give this one another", job.file.string());
    if (goes_on) return Lead::cluster;
    if (again) fail_runtime("all servers are gone; resume the run from its last checkpoint to go on");
    forget_job(*registry);  // all its servers are gone, and the model with them
    registry->put(kJobName, to_json_text(job));
    begins = true;
    return Lead::new_job;
  }

  // False: the job was done meanwhile, or it was interrupted. waited: an end of the job that is found is this one's.
  bool win_election(Registry& registry, const std::atomic<bool>& interrupt, bool waited) {
    membership = std::make_unique<Membership>(MembershipOptions{.self = self, .wake = [this] { mailbox.wake(); }},
                                              [this] { return options.access.open_registry(); });
    if (!join_patiently(*membership, &interrupt)) return false;
    const Election election(self);
    while (!interrupt) {
      try {
        if (!membership->lease_valid() && !join_patiently(*membership, &interrupt)) return false;
        const bool leads = election.campaign(registry, membership->lease(), kLookAtLeader);
        const bool done = registry.get(kDoneName).has_value();
        if (waited && done) {
          membership->leave();
          return false;
        }
        if (leads) {
          if (done) registry.remove(kDoneName);  // of a job before this one
          return true;
        }
        if (!std::exchange(waited, true)) spdlog::info("another manager leads the job: this one stands by");
      } catch (const Unreachable& error) {
        spdlog::warn("{}", error.what());
      } catch (const Error&) {
        if (membership->lease_valid()) throw;  // else it has just run out: joined anew, this manager may try again
      }
    }
    membership->leave();
    return false;
  }

  void wait_for_renewals(const std::atomic<bool>& interrupt) {
    const auto end = std::chrono::steady_clock::now() + kTimeToRenew;
    while (!interrupt && std::chrono::steady_clock::now() < end) {
      const std::optional<Received> received = mailbox.receive(kLookAtChildren);
      if (!service) continue;
      const auto now = std::chrono::steady_clock::now();
      std::vector<RegistryAnswer> answers = service->tick(now);
      if (received && received->message.kind == MessageKind::registry)
        std::ranges::move(service->handle(received->from, received->message, now), std::back_inserter(answers));
      for (const RegistryAnswer& answer : answers) mailbox.send(answer.to, answer.message);
    }
  }

  // Whether somebody has the model: a server of it, or one that was given up and has come back.
  static bool lives(const View& view, Registry& registry) {
    return !view.over && std::ranges::any_of(registry.list(kMembersPrefix), [&](const RegistryEntry& entry) {
      const MemberInfo member = member_from_text(entry.text);
      return std::ranges::find(view.servers, member.id, &MemberInfo::id) != view.servers.end() ||
             (!view.begun_by.empty() && member.holds == view.begun_by);
    });
  }

  static void forget_job(Registry& registry) {
    for (const char* name : {kViewName, kServiceName, kJobName, kProgressName}) registry.remove(name);
  }

  // --- while it leads

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
    std::function<bool()> leads;
    if (membership) leads = [this] { return membership->lease_valid(); };
    manager = std::make_unique<ClusterManager>(
        ClusterManager::Args{.self = self,
                             .mailbox = &mailbox,
                             .registry = open_registry(),
                             .service = service.get(),
                             .layout = plan.layout(),
                             .participation = plan.participation(),
                             .servers = options.servers,
                             .workers = options.workers,
                             .backup = static_cast<int>(plan.sync.backup),
                             .combine = plan.sync.combine,
                             .on_view = [this](const View& view) { client->set_view(view); },
                             .leads = std::move(leads),
                             .on_failure = [this](const std::string& why) { client->stop(why); }});
    for (int i = 0; i < options.servers; ++i) start(options.server_command, fmt::format("server {}", i + 1), {});
    for (int i = 0; i < options.workers; ++i)
      start(options.worker_command, fmt::format("worker {}", i + 1), gpus_of_worker(i, options.gpus_each));
    return *manager;
  }

  // On the main thread: children die with the thread that started them.
  void start(const std::vector<std::string>& command, const std::string& name,
             const std::vector<std::string>& variables) {
    if (command.empty()) return;
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--manager", options.access.manager});
    children.push_back({ChildProcess(std::move(words), variables), &command, name, variables});
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
      if (replaced++ < options.replacements) start(*gone.command, gone.name, gone.variables);
    }
    const bool started = !options.worker_command.empty();
    if (started &&
        std::ranges::none_of(children, [&](const Child& child) { return child.command == &options.worker_command; }))
      throw Error(Fault::rank_lost, "all workers are gone; resume the run to go on from its last checkpoint");
  }

  void end() {
    if (!manager) return forget_beginning();
    if (!manager->end(kTimeToLeave)) spdlog::warn("some servers or workers did not answer that the job is over");
    const auto deadline = std::chrono::steady_clock::now() + kTimeToLeave;
    while (std::ranges::any_of(children, [](Child& child) { return !child.process.poll(); }) &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(kLookAtChildren);
    children.clear();
    const bool led = manager->leads();
    manager.reset();
    if (!led) return;  // what stands in the registry may be another's
    const auto registry = open_registry();
    if (membership) registry->put(kDoneName, self.id, registry->grant(kDoneIsKnown));
    forget_everything(*registry);
  }

  // It failed before it led anybody: nobody is to go on with that.
  void forget_beginning() const {
    if (begins) forget_everything(*open_registry());
  }

  // Another job of this name must not find an end that is not its own.
  void forget_everything(Registry& registry) const {
    forget_job(registry);
    if (membership) membership->leave();
    std::error_code none;
    if (!options.registry_file.empty()) std::filesystem::remove(options.registry_file, none);
  }

  const Job& job;
  ClusterHostOptions options;
  Mailbox mailbox;
  MemberInfo self;
  std::shared_ptr<SharedRegistryStore> store;
  std::unique_ptr<RegistryService> service;
  std::vector<Child> children;
  int replaced = 0;
  bool begins = false;                     // a new job
  std::unique_ptr<Membership> membership;  // of this manager, with etcd
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
  if (chooses_gpus(job.plan.device) && job.plan.device.find('#') == std::string::npos) {
    options.gpus_each = mesh_of(job.plan).size();
    check_gpus(job.plan.device, processes * options.gpus_each);
  }
  if (job.train.threads == 0) {
    const int threads = std::max(1, cores / processes);
    options.worker_command.insert(options.worker_command.end(), {"--set", fmt::format("train.threads={}", threads)});
  }
  return options;
}

ClusterHost::ClusterHost(const Job& job, ClusterHostOptions options)
    : impl_(std::make_unique<Impl>(job, std::move(options))) {}
ClusterHost::~ClusterHost() = default;

ClusterHost::Lead ClusterHost::stand_by(const std::atomic<bool>& interrupt, bool again) {
  return impl_->stand_by(interrupt, again);
}

std::optional<TrainingState> ClusterHost::progress() const {
  const auto entry = impl_->open_registry()->get(kProgressName);
  if (!entry) return std::nullopt;
  return training_state_from_json(entry->text, "the registry's progress");
}

ClusterManager& ClusterHost::open(const ServicePlan& plan) {
  return impl_->open(plan);
}

ServerClient& ClusterHost::client() {
  return *impl_->client;
}

void ClusterHost::look_after_members() {
  impl_->look_after_children();
}

// Where the registry cannot be reached the progress before stays: a successor would do a little more again.
bool ClusterHost::keep_progress(const TrainingState& state) {
  try {
    impl_->open_registry()->put(kProgressName, to_json_text(state));
    return true;
  } catch (const Unreachable& error) {
    spdlog::warn("where training stands could not be noted, and will be tried again: {}", error.what());
    return false;
  }
}

void ClusterHost::end() {
  impl_->end();
}

bool ClusterHost::lost_leadership() const {
  return impl_->manager && impl_->manager->lost_leadership();
}

std::string ClusterHost::address() const {
  return impl_->mailbox.address();
}

}  // namespace trifold
