// FedYogi: moment2 goes towards the squares by steps of their size, not of its own, so that it falls slowly.
#include "parallel/servers/updates/adaptive_server.h"
#include "parallel/servers/updates/kinds.h"

namespace trifold {

std::unique_ptr<SliceUpdate> make_fedyogi(const FederatedArgs& args) {
  // moment2 - (1 - beta2) * square * sign(moment2 - square)
  const auto law = [rest = 1 - args.beta2](double moment2, double square) {
    const double step = rest * square;
    return moment2 > square ? moment2 - step : moment2 < square ? moment2 + step : moment2;
  };
  return std::make_unique<AdaptiveServer<decltype(law)>>(args, law);
}

}  // namespace trifold
