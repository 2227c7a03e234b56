// FedAdagrad: moment2 is the sum of the squares.
#include "parallel/servers/updates/adaptive_server.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {

std::unique_ptr<SliceUpdate> make_fedadagrad(const FederatedArgs& args) {
  const auto law = [](double moment2, double square) { return moment2 + square; };
  return std::make_unique<AdaptiveServer<decltype(law)>>(args, law);
}

}  // namespace trifold
