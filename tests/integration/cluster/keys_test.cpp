// trifold keys: what it makes can be loaded, and is never overwritten.
#include "parallel/servers/wire/keys.h"

#include <filesystem>

#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class KeysCommand : public JobFixture {};

TEST_F(KeysCommand, MakesKeysOfTheMembersOnce) {
  const auto made = trifold({"keys", "keys", "--members", "head,n1,n2"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(says(made.out, "made keys of head, n1, n2 in keys"));
  EXPECT_EQ(load_credentials(directory() / "keys", "n2").trusted.size(), 3u);

  const auto again = trifold({"keys", "--members", "n3,n2", "keys"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(says(again.err, "member 'n2' has a key"));
  EXPECT_FALSE(std::filesystem::exists(directory() / "keys" / "n3.secret"));
}

TEST_F(KeysCommand, MakesAKeyOfEveryRoleUnlessMembersAreNamed) {
  EXPECT_EQ(trifold({"keys", "keys"}).exit_code, 0);
  for (const char* role : {"manager", "server", "worker"})
    EXPECT_EQ(load_credentials(directory() / "keys", role).trusted.size(), 3u);
}

}  // namespace
}  // namespace trifold::test
