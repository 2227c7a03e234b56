// FedAdam: moment2 is the running average of the squares.
#include "parallel/ps/updates/adaptive_server.h"
#include "parallel/ps/updates/kinds.h"

namespace trifold {

std::unique_ptr<SliceUpdate> make_fedadam(const FederatedArgs& args) {
  const auto law = [beta2 = static_cast<float>(args.beta2), rest = static_cast<float>(1 - args.beta2)](
                       float moment2, float square) { return beta2 * moment2 + rest * square; };
  return std::make_unique<AdaptiveServer<decltype(law)>>(args, law);
}

}  // namespace trifold
