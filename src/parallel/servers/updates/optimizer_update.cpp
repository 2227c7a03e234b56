// The job's optimiser, as a server runs it on its slices.
#include "core/error.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {

std::unique_ptr<SliceUpdate> make_optimizer_update(const OptimizerArgs& args) {
  if (args.clip_norm > 0)
    fail_input("clip_norm needs the norm of all gradients, and a parameter server has only some of them: leave it out");
  switch (args.kind) {
    case OptimizerKind::sgd:
      return make_sgd(args);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return make_adam(args);
    case OptimizerKind::adagrad:
      return make_adagrad(args);
    case OptimizerKind::lars:
      break;
  }
  fail_input("lars needs the norms of whole layers, and a parameter server has only slices of them: choose another");
}

}  // namespace trifold
