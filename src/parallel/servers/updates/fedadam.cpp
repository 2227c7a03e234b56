// FedAdam: moment2 is the running average of the squares.
#include "parallel/servers/updates/adaptive_server.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {

std::unique_ptr<SliceUpdate> make_fedadam(const FederatedArgs& args) {
  const auto law = [beta2 = args.beta2](double moment2, double square) {
    return beta2 * moment2 + (1 - beta2) * square;
  };
  return std::make_unique<AdaptiveServer<decltype(law)>>(args, law);
}

}  // namespace trifold
