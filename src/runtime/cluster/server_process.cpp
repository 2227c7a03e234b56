#include "runtime/cluster/server_process.h"

#include <chrono>
#include <map>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "parallel/servers/registry/membership.h"
#include "runtime/cluster/cluster_plan.h"
#include "runtime/cluster/member_id.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kServerLook{50};
constexpr int kTakenAtOnce = 256;  // messages, before the view is looked at
constexpr std::chrono::seconds kPatienceForManager{60};
constexpr std::chrono::seconds kBegunAnew{2};

// Whoever was cut off may have missed the end of the job. One that is begun anew is unknown for a moment only.
bool job_is_gone(const ClusterAccess& access) {
  const auto deadline = std::chrono::steady_clock::now() + kBegunAnew;
  try {
    const std::unique_ptr<Registry> registry = access.open_registry();
    while (!registry->get(kJobName)) {
      if (std::chrono::steady_clock::now() > deadline) return true;
      std::this_thread::sleep_for(kServerLook);
    }
  } catch (const Unreachable&) {
    // then the lease runs out as well, and it is asked again
  }
  return false;
}

// What a server that was given up for lost comes back with: nobody may have anything newer.
struct Kept {
  std::string begun_by = {};          // the job that it belongs to
  std::vector<std::string> ids = {};  // that the server has had in it
  std::map<int, SliceState> held = {};
};

// One time in the cluster, from joining to leaving or being given up. True: the job is over.
bool serve(const ServerProcessOptions& options, const ServicePlan& plan, Mailbox& mailbox, Kept& kept) {
  MemberInfo self{.id = new_member_id("server"), .role = "server", .address = mailbox.address()};
  if (!kept.held.empty()) self.holds = kept.begun_by;
  if (const auto credentials = options.access.credentials()) self.public_key = credentials->own.public_key;
  const std::unique_ptr<AuditLog> audit =
      options.audit.empty() ? nullptr : std::make_unique<AuditLog>(options.audit, self.id);
  ParameterServer server({.id = self.id,
                          .layout = plan.layout(),
                          .rules = plan.rules(),
                          .rule = make_aggregation(plan.sync.rule),
                          .update = plan.update(),
                          .half_answers = plan.sync.half,
                          .mailbox = &mailbox,
                          .audit = audit.get(),
                          .former_ids = kept.ids,
                          .held = std::exchange(kept.held, {})});
  Membership membership(
      {.self = self, .valid_while_unreachable = options.access.etcd.empty(), .wake = [&mailbox] { mailbox.wake(); }},
      [&] { return options.access.open_registry(); });
  if (!join_patiently(membership, options.interrupt)) return true;
  if (job_is_gone(options.access)) {
    membership.leave();
    return true;
  }
  // The job that this server takes part in; what was there before it joined may be another.
  std::string begun_by = kept.begun_by;
  while (options.interrupt == nullptr || !options.interrupt->load()) {
    if (const auto view = membership.view()) {
      if (view->over) {
        server.note_the_end();
        break;
      }
      if (begun_by.empty() && view->has(self)) begun_by = view->begun_by;
      if (!begun_by.empty() && view->begun_by != begun_by) {
        spdlog::warn("the job was begun anew; {} joins anew, with nothing", self.id);
        membership.leave();
        kept = {};
        return false;
      }
      if (!begun_by.empty()) server.follow(*view);
    }
    std::optional<Received> received = mailbox.receive(kServerLook);
    for (int taken = 0;; ++taken) {
      // Whoever may have been given up for lost answers nobody: another may own its slices.
      if (!membership.lease_valid() || server.deposed()) {
        spdlog::warn("{} was given up for lost; it joins anew, with what it holds", self.id);
        kept.begun_by = begun_by;
        kept.ids.push_back(self.id);
        kept.held = server.give_up();
        return false;
      }
      if (!received) break;
      std::optional<Received> next;
      if (taken < kTakenAtOnce) next = mailbox.receive(std::chrono::milliseconds(0));
      server.handle(*received, next.has_value());
      received = std::move(next);
    }
    server.tick();
    check_registry(membership);
  }
  membership.leave();
  return true;
}

}  // namespace

void run_server(const ServerProcessOptions& options) {
  const Job job = parse_job(wait_for_text(options.access, kJobName, kPatienceForManager), "the registry's job");
  const ServicePlan plan = service_from_text(job, wait_for_text(options.access, kServiceName, kPatienceForManager));
  Mailbox mailbox({.listen = options.listen, .credentials = options.access.credentials()});
  spdlog::info("server at {}", mailbox.address());
  Kept kept;
  while (!serve(options, plan, mailbox, kept)) {
  }
}

}  // namespace trifold
