// trifold keys FOLDER: what the members of a cluster prove themselves by to each other.
#include "parallel/servers/wire/keys.h"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"

namespace trifold {

void add_keys_command(CLI::App& app) {
  struct KeysCommand {
    std::string folder;
    std::vector<std::string> members = {"manager", "server", "worker"};
  };
  auto command = std::make_shared<KeysCommand>();
  CLI::App* sub =
      app.add_subcommand("keys", "makes keys for members of a cluster on several machines: trifold keys cluster-keys");
  sub->add_option("folder", command->folder, "where to; keys that are there stay")->required();
  sub->add_option("--members", command->members, "whose, like a,b,c (manager,server,worker)")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->callback([command] {
    make_keys(command->folder, command->members);
    fmt::print(
        "made keys of {} in {}\nGive each machine the list 'trusted' and only the .secret files of its members.\n",
        fmt::join(command->members, ", "), command->folder);
  });
}

}  // namespace trifold
