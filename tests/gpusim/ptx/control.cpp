// Lowering of control flow, barriers and fences. The scheduler executes all of it except fences and sleep.
#include "ptx/barrier.h"
#include "ptx/execution.h"
#include "ptx/lowering.h"
#include "ptx/scheduler.h"

namespace gpusim::ptx {
namespace {

void lower_exit(Lowering& lowering) {
  Instruction leave = lowering.start();
  leave.control = Control::exit;
  lowering.emit(leave);
}

void lower_trap(Lowering& lowering) {
  Instruction trap = lowering.start();
  trap.control = Control::trap;
  lowering.emit(trap);
}

void do_nothing(Execution&, const Instruction&, std::uint32_t) {}

void lower_warp_barrier(Lowering& lowering) {
  if (!lowering.take("sync")) lowering.unsupported("bar.warp without .sync");
  lowering.expect_arguments(1, 1);
  Instruction barrier = lowering.start();
  barrier.control = Control::warp_sync;
  barrier.handler = do_nothing;
  barrier.target = lowering.source(0, Type::b32).bits;
  lowering.emit(barrier);
}

void lower_barrier(Lowering& lowering) {
  if (lowering.take("warp")) return lower_warp_barrier(lowering);
  lowering.take("cta");
  lowering.take("aligned");
  Instruction barrier = lowering.start();
  barrier.control = Control::barrier;
  std::size_t id_at = 0;
  std::size_t end = lowering.argument_count();
  if (lowering.take("sync")) {
    barrier.sub = static_cast<std::uint8_t>(BarrierKind::sync);
  } else if (lowering.take("arrive")) {
    barrier.sub = static_cast<std::uint8_t>(BarrierKind::arrive);
    lowering.expect_arguments(2, 2);
  } else if (lowering.take("red")) {
    const int kind = lowering.take_one_of({"popc", "and", "or"});
    if (kind < 0) lowering.unsupported("barrier reduction");
    barrier.sub = static_cast<std::uint8_t>(kind == 0   ? BarrierKind::count
                                            : kind == 1 ? BarrierKind::all
                                                        : BarrierKind::any);
    lowering.expect_arguments(3, 4);
    if (lowering.take_type() == Type::u32) {
      barrier.d = lowering.destination(0, Type::u32);
    } else {
      barrier.p = lowering.predicate_destination(lowering.argument(0));
    }
    barrier.source = lowering.predicate_source(end - 1);
    id_at = 1;
    --end;
  } else {
    lowering.unsupported("barrier without .sync, .arrive or .red");
  }
  if (end <= id_at || end - id_at > 2) lowering.unsupported("barrier operands");
  barrier.a = lowering.source(id_at, Type::u32);
  if (end - id_at == 2) barrier.b = lowering.source(id_at + 1, Type::u32);
  if (barrier.b.exists() || barrier.sub == static_cast<std::uint8_t>(BarrierKind::arrive))
    lowering.kernel().has_partial_barriers = true;
  lowering.emit(barrier);
}

void execute_fence(Execution& run, const Instruction& /*instruction*/, std::uint32_t /*mask*/) {
  run.block_races.fence();
}

void lower_fence(Lowering& lowering) {
  if (lowering.opcode() == "fence" && lowering.take_one_of({"sc", "acq_rel", "acquire", "release"}) < 0)
    lowering.unsupported("fence without .sc, .acq_rel, .acquire or .release");
  const int scope = lowering.take_one_of({"cta", "gl", "gpu", "sys", "cluster"});
  if (scope < 0) lowering.unsupported("fence without a scope");
  lowering.expect_arguments(0, 0);
  Instruction fence = lowering.start();
  fence.handler = scope == 0 ? do_nothing : execute_fence;  // within a block there is nothing to release
  lowering.emit(fence);
}

// Whoever sleeps waits for others.
void execute_nanosleep(Execution& run, const Instruction& /*instruction*/, std::uint32_t /*mask*/) {
  end_slice(run);
}

void lower_nanosleep(Lowering& lowering) {
  lowering.take_type();
  lowering.expect_arguments(1, 1);
  Instruction sleep = lowering.start();
  sleep.handler = execute_nanosleep;
  lowering.emit(sleep);
}

constexpr Family kFamily[] = {
    {"bra", [](Lowering& lowering) { lowering.lower_branch(); }},
    {"brx", [](Lowering& lowering) { lowering.lower_branch_table(); }},
    {"call", [](Lowering& lowering) { lowering.lower_call(); }},
    {"ret", [](Lowering& lowering) { lowering.lower_return(); }},
    {"exit", lower_exit},
    {"trap", lower_trap},
    {"brkpt", lower_trap},
    {"bar", lower_barrier},
    {"barrier", lower_barrier},
    {"membar", lower_fence},
    {"fence", lower_fence},
    {"nanosleep", lower_nanosleep},
};

}  // namespace

std::span<const Family> control_family() {
  return kFamily;
}

}  // namespace gpusim::ptx
