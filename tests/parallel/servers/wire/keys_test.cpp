#include "parallel/servers/wire/keys.h"

#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

class KeysTest : public ::testing::Test {
 protected:
  fs::path folder() const { return directory_.path() / "keys"; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder() / name) << text; }
  std::string read(const std::string& name) const {
    std::ifstream file(folder() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string fault_of(const std::string& member) const {
    try {
      load_credentials(folder(), member);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::input);
      return error.what();
    }
    return "";
  }
  void expect_fault(const std::string& part, const std::string& member = "a") const {
    EXPECT_NE(fault_of(member).find(part), std::string::npos) << fault_of(member);
  }

 private:
  testing::TemporaryDirectory directory_;
};

TEST_F(KeysTest, EveryMemberProvesItselfAndTrustsAll) {
  make_keys(folder(), {"a", "b"});
  make_keys(folder(), {"c"});
  const Credentials a = load_credentials(folder(), "a"), b = load_credentials(folder(), "b");
  EXPECT_EQ(a.own.public_key.size(), 40u);
  EXPECT_NE(a.own.secret_key, b.own.secret_key);
  EXPECT_EQ(a.trusted.size(), 3u);
  EXPECT_EQ(a.trusted, b.trusted);
  EXPECT_EQ(a.trusted[1], b.own.public_key);
}

TEST_F(KeysTest, OnlyItsOwnerReadsASecret) {
  make_keys(folder(), {"a"});
  struct stat status = {};
  ASSERT_EQ(::stat((folder() / "a.secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(read("trusted").find(read("a.secret").substr(0, 40)), std::string::npos);
  fs::permissions(folder() / "a.secret", fs::perms::group_read, fs::perm_options::add);
  expect_fault("can be read by others: chmod 600");
}

TEST_F(KeysTest, AKeyIsNotOverwritten) {
  make_keys(folder(), {"a"});
  const std::string secret = read("a.secret"), trusted = read("trusted");
  EXPECT_THROW(make_keys(folder(), {"b", "a"}), Error);
  EXPECT_EQ(read("a.secret"), secret);
  EXPECT_EQ(read("trusted"), trusted);
  EXPECT_FALSE(fs::exists(folder() / "b.secret"));
  fs::remove(folder() / "trusted");
  EXPECT_THROW(make_keys(folder(), {"a"}), Error);  // its secret alone
  EXPECT_EQ(read("a.secret"), secret);
}

TEST_F(KeysTest, NamesThatAreNoneAreRefused) {
  for (const char* name : {"", "../a", "a/b", ".a", "a b", "a\n"})
    EXPECT_THROW(make_keys(folder(), {name}), Error) << name;
  EXPECT_THROW(make_keys(folder(), {"a", "a"}), Error);
  EXPECT_THROW(make_keys(folder(), {}), Error);
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(KeysTest, WhatIsWrongWithAKeyIsSaid) {
  make_keys(folder(), {"a", "b"});
  expect_fault("no key of member 'x'", "x");
  expect_fault("no name of a member", "../a");
  const std::string secret = read("a.secret"), trusted = read("trusted");
  write("a.secret", secret.substr(0, 39));
  expect_fault("has 39 letters where a key has 40");
  write("a.secret", std::string(40, '"'));
  expect_fault("letters that are in no key");
  write("a.secret", read("b.secret"));
  EXPECT_EQ(fault_of("a"), "");
  write("a.secret", make_key_pair().secret_key);
  expect_fault("so no other would let it in");
  write("a.secret", secret);
  write("trusted", "# of the test\n\n" + trusted + "short c\n");
  expect_fault("line 5 of");
  fs::remove(folder() / "trusted");
  expect_fault("no list of trusted keys");
}

}  // namespace
}  // namespace trifold
