#include "runtime/cluster/worker_process.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "parallel/servers/aggregator/host_aggregator.h"
#include "parallel/servers/registry/membership.h"
#include "runtime/cluster/cluster_plan.h"
#include "runtime/cluster/member_id.h"
#include "runtime/cluster/model_work.h"
#include "runtime/cluster/worker.h"
#include "runtime/train/job_data.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kWorkerLook{10};
constexpr std::chrono::seconds kPatienceForJob{60};
constexpr const char* kHeadAddress = "tcp://127.0.0.1:*";  // for workers of this host

Job job_for_worker(const WorkerProcessOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& text : options.set) overrides.push_back(parse_set(text));
  return parse_job(wait_for_text(options.access, kJobName, kPatienceForJob), "the registry's job", overrides);
}

// Where workers of a host push through one of them, each can be that one: the views say who is.
std::unique_ptr<HostAggregator> open_head(const WorkerProcessOptions& options, const ServicePlan& plan,
                                          MemberInfo& self) {
  if (!plan.sync.combine) return nullptr;
  const std::optional<Credentials> credentials = options.access.credentials();
  auto head = std::make_unique<HostAggregator>(
      HostAggregatorOptions{.worker = self.id,
                            .tensors = plan.tensors,
                            .participation = plan.participation(),
                            .rule = plan.sync.rule,
                            .half = plan.sync.half,
                            .mailbox = {.listen = kHeadAddress, .credentials = credentials}});
  self.address = head->address();
  if (credentials) self.public_key = credentials->own.public_key;
  return head;
}

// One time in the cluster, from joining to leaving. True: the job is over; false: it was begun anew.
bool work(const WorkerProcessOptions& options) {
  const Job job = job_for_worker(options);
  const ServicePlan plan = service_from_text(job, wait_for_text(options.access, kServiceName, kPatienceForJob));
  ModelWork model_work(job, open_split(job, Split::train));
  MemberInfo self{.id = new_member_id("worker"),
                  .role = "worker",
                  .host = options.host.empty() ? name_of_this_host() : options.host};
  const std::unique_ptr<HostAggregator> head = open_head(options, plan, self);
  const std::unique_ptr<AuditLog> audit =
      options.audit.empty() ? nullptr : std::make_unique<AuditLog>(options.audit, self.id);
  ServerClient client({.tensors = plan.tensors,
                       .worker = self.id,
                       .shards = static_cast<int>(plan.sync.shards),
                       .codec = {.half = plan.sync.half, .keep = plan.sync.keep},
                       .mailbox = {.credentials = options.access.credentials()},
                       .pulls_overtake = plan.sync.consistency == Consistency::sync,
                       .audit = audit.get()});
  Worker worker({.id = self.id,
                 .participation = plan.participation(),
                 .clocks = model_work.clocks(),
                 .pulls_every_shard = plan.sync.consistency != Consistency::sync,
                 .head = head.get()},
                client, model_work);
  Membership membership({.self = self, .valid_while_unreachable = options.access.etcd.empty()},
                        [&] { return options.access.open_registry(); });
  if (!join_patiently(membership, options.interrupt)) return true;

  // A worker that was given up for lost computes what others do as well: it may as well join again.
  std::atomic<bool> ended{false};
  std::atomic<bool> begun_anew{false};
  std::exception_ptr failure;
  const auto follow = [&] {
    std::int64_t version = -1;
    std::string begun_by;  // the job that this worker takes part in
    while (!ended) {
      const auto view = membership.view();
      if (view && begun_by.empty() && view->has(self)) begun_by = view->begun_by;
      if (view && !begun_by.empty() && view->begun_by != begun_by) {
        if (!begun_anew.exchange(true)) spdlog::warn("the job was begun anew; {} joins anew", self.id);
        worker.leave();
      } else if (view && view->version != version && (!begun_by.empty() || view->over)) {
        version = view->version;
        if (head) head->set_view(*view);  // first: it may be asked at once
        worker.set_view(*view);
      }
      if (options.interrupt != nullptr && options.interrupt->load()) worker.leave();
      if (head && head->failed()) worker.leave();
      if (!membership.lease_valid()) membership.try_join();  // or in a moment
      check_registry(membership);
      std::this_thread::sleep_for(kWorkerLook);
    }
  };
  std::thread follower([&] {
    try {
      follow();
    } catch (...) {
      failure = std::current_exception();
      worker.leave();
    }
  });
  std::exception_ptr own_failure;
  try {
    worker.run();
  } catch (...) {
    own_failure = std::current_exception();
  }
  ended = true;
  follower.join();
  if (own_failure) failure = own_failure;
  membership.leave();
  client.stop();
  if (failure) std::rethrow_exception(failure);
  if (head) head->check();
  return !begun_anew;
}

}  // namespace

void run_worker_process(const WorkerProcessOptions& options) {
  while (!work(options)) {
  }
}

}  // namespace trifold
