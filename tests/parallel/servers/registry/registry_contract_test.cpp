// The registries of one machine: in the manager's process, and by messages to it.
#include "parallel/servers/registry/registry_contract.h"

#include "parallel/servers/registry/local_registry.h"
#include "parallel/servers/registry/served_registry.h"

namespace trifold::test {
namespace {

class LocalWorld final : public RegistryWorld {
 public:
  std::unique_ptr<Registry> open() override { return std::make_unique<LocalRegistry>(served_.shared()); }

 private:
  ServedRegistry served_{{}};
};

class ServedWorld final : public RegistryWorld {
 public:
  std::unique_ptr<Registry> open() override { return served_.open(); }

 private:
  ServedRegistry served_{{}};
};

INSTANTIATE_TEST_SUITE_P(
    OneMachine, RegistryContract,
    ::testing::Values(RegistryKind{.name = "Local", .make = [] { return std::make_unique<LocalWorld>(); }},
                      RegistryKind{.name = "Manager", .make = [] { return std::make_unique<ServedWorld>(); }}),
    [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace trifold::test
