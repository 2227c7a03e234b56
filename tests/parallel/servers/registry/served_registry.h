// A manager's loop around the registry, as far as tests of its clients need one: a mailbox, the service, and time.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "parallel/servers/registry/manager_registry.h"
#include "parallel/servers/registry/registry_service.h"

namespace trifold::test {

class ServedRegistry {
 public:
  struct Args {
    std::filesystem::path file = {};
    std::string listen = "tcp://127.0.0.1:*";
  };

  explicit ServedRegistry(const Args& args)
      : mailbox_({.listen = args.listen}),
        address_(mailbox_.address()),
        shared_(std::make_shared<SharedRegistryStore>(args.file, [this] { mailbox_.wake(); })),
        loop_([this] { run(); }) {}
  ~ServedRegistry() {
    stop_ = true;
    mailbox_.wake();
    loop_.join();
  }

  const std::string& address() const { return address_; }
  const std::shared_ptr<SharedRegistryStore>& shared() const { return shared_; }
  std::unique_ptr<Registry> open(std::chrono::milliseconds patience = std::chrono::milliseconds(1500)) const {
    return std::make_unique<ManagerRegistry>(ManagerRegistryOptions{.address = address_, .patience = patience});
  }

 private:
  void run() {
    RegistryService service(shared_);
    const auto send = [&](const std::vector<RegistryAnswer>& answers) {
      for (const auto& [to, message] : answers) mailbox_.send(to, message);
    };
    while (!stop_) {
      const auto received = mailbox_.receive(std::chrono::milliseconds(20));
      const auto now = std::chrono::steady_clock::now();
      if (received) send(service.handle(received->from, received->message, now));
      send(service.tick(now));
    }
  }

  Mailbox mailbox_;
  const std::string address_;
  std::shared_ptr<SharedRegistryStore> shared_;
  std::atomic<bool> stop_ = false;
  std::thread loop_;
};

}  // namespace trifold::test
