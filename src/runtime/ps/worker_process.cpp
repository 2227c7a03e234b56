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

}  // namespace

void run_worker_process(const WorkerProcessOptions& options) {
  const Job job = job_for_worker(options);
  const ServicePlan plan = service_from_text(job, wait_for_text(options.access, kServiceName, kPatienceForJob));
  ModelWork work(job, open_split(job, Split::train));
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
                 .clocks = work.clocks(),
                 .pulls_every_shard = plan.sync.consistency != Consistency::sync},
                client, work);
  Membership membership({.self = self, .valid_while_unreachable = options.access.etcd.empty()},
                        [&] { return options.access.open_registry(); });
  while (!membership.try_join()) {
    if (options.interrupt != nullptr && options.interrupt->load()) return;
    std::this_thread::sleep_for(kWorkerLook);
  }

  // A worker that was given up for lost computes what others do as well: it may as well join again.
  std::atomic<bool> ended{false};
  std::exception_ptr failure;
  const auto follow = [&] {
    std::int64_t version = -1;
    while (!ended) {
      const auto view = membership.view();
      if (view && view->version != version) {
        version = view->version;
        client.set_manager(view->leader);
        worker.set_view(*view);
      }
      if (options.interrupt != nullptr && options.interrupt->load()) worker.leave();
      if (!membership.lease_valid()) membership.try_join();  // or in a moment
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
}

}  // namespace trifold
