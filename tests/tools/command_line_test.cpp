// The command line as a whole. Older versions of CLI11 accept a positional argument and an option of one name; newer
// ones (2.4, Debian 13) end the program when the second is declared, whatever command was asked for.
#include <set>

#include <gtest/gtest.h>

#include "commands.h"

namespace trifold {
namespace {

// Every name that an option or a positional argument answers to, without dashes.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names = option.get_lnames();
  names.insert(names.end(), option.get_snames().begin(), option.get_snames().end());
  if (const std::string positional = option.get_name(true, false); option.get_positional()) names.push_back(positional);
  return names;
}

TEST(CommandLine, NoTwoArgumentsOfACommandShareAName) {
  const std::unique_ptr<CLI::App> app = make_command_line();
  const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
  EXPECT_GE(commands.size(), 18u);
  for (const CLI::App* command : commands) {
    std::set<std::string> seen;
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : names_of(*option))
        EXPECT_TRUE(seen.insert(name).second) << command->get_name() << " has two arguments named " << name;
  }
}

TEST(CommandLine, EveryArgumentIsExplained) {
  const std::unique_ptr<CLI::App> app = make_command_line();
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    EXPECT_FALSE(command->get_description().empty()) << command->get_name();
    for (const CLI::Option* option : command->get_options())
      EXPECT_FALSE(option->get_description().empty()) << command->get_name() << " " << option->get_name();
  }
}

}  // namespace
}  // namespace trifold
