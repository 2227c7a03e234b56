#include "runtime/ps/worker_process.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>

#include <spdlog/spdlog.h>

#include "parallel/ps/registry/membership.h"
#include "runtime/core/error.h"
#include "runtime/ps/cluster_plan.h"
#include "runtime/ps/member_id.h"
#include "runtime/ps/model_work.h"
#include "runtime/ps/worker.h"
#include "runtime/train/job_data.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kWorkerLook{10};
constexpr std::chrono::seconds kPatienceForJob{60};

Job job_for_worker(const WorkerProcessOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& text : options.set) overrides.push_back(parse_set(text));
  return parse_job(wait_for_text(options.access, kJobName, kPatienceForJob), "the registry's job", overrides);
}

// One time in the cluster, from joining to leaving. True: the job is over; false: it was begun anew.
bool work(const WorkerProcessOptions& options) {
  const Job job = job_for_worker(options);
  const ServicePlan plan = service_from_text(job, wait_for_text(options.access, kServiceName, kPatienceForJob));
  ModelWork model_work(job, open_split(job, Split::train));
  MemberInfo self{.id = new_member_id("worker"), .role = "worker"};
  const std::unique_ptr<AuditLog> audit =
      options.audit.empty() ? nullptr : std::make_unique<AuditLog>(options.audit, self.id);
  ServerClient client({.tensors = plan.tensors,
                       .shards = static_cast<int>(plan.sync.shards),
                       .codec = {.half = plan.sync.half, .keep = plan.sync.keep},
                       .mailbox = {.credentials = options.access.credentials()},
                       .pulls_overtake = plan.sync.consistency == Consistency::sync,
                       .audit = audit.get()});
  Worker worker({.id = self.id,
                 .participation = plan.participation(),
                 .clocks = model_work.clocks(),
                 .pulls_every_shard = plan.sync.consistency != Consistency::sync},
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
        worker.set_view(*view);
      }
      if (options.interrupt != nullptr && options.interrupt->load()) worker.leave();
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
  return !begun_anew;
}

}  // namespace

void run_worker_process(const WorkerProcessOptions& options) {
  while (!work(options)) {
  }
}

}  // namespace trifold
