// A target is old or new, never in between, and no temporary outlives its writer.
#include "runtime/checkpoint/atomic_file.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using testing::count_entries;
using testing::read_file;
using testing::TemporaryDirectory;

TEST(AtomicFile, AppearsAtCommit) {
  const TemporaryDirectory directory;
  AtomicFile file(directory / "a.txt");
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(std::filesystem::exists(directory / "a.txt"));
  file.commit();
  EXPECT_EQ(read_file(directory / "a.txt"), "one two");
  EXPECT_EQ(count_entries(directory.path()), 1u);
}

TEST(AtomicFile, WithoutCommitTheOldFileStays) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "a.txt", "old");
  {
    AtomicFile file(directory / "a.txt");
    file.write("new");
    EXPECT_EQ(count_entries(directory.path()), 2u);
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      EXPECT_EQ(is_atomic_temporary(entry.path()), entry.path().filename() != "a.txt");
    }
  }
  EXPECT_EQ(read_file(directory / "a.txt"), "old");
  EXPECT_EQ(count_entries(directory.path()), 1u);
}

TEST(AtomicFile, ReplacesAndHonoursTheUmask) {
  const TemporaryDirectory directory;
  const mode_t old_mask = ::umask(027);
  write_file_atomically(directory / "a.txt", "old");
  write_file_atomically(directory / "a.txt", "new");
  ::umask(old_mask);
  EXPECT_EQ(read_file(directory / "a.txt"), "new");
  struct stat status {};
  ASSERT_EQ(::stat((directory / "a.txt").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(AtomicFile, WorksForANameWithoutDirectory) {
  const TemporaryDirectory directory;
  const auto previous = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  write_file_atomically("plain.txt", "x");
  std::filesystem::current_path(previous);
  EXPECT_EQ(read_file(directory / "plain.txt"), "x");
}

TEST(AtomicFile, MissingDirectoryIsSaid) {
  try {
    const AtomicFile file("/nowhere/at/all.txt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot create '/nowhere/at/all.txt': No such file or directory");
    EXPECT_EQ(error.fault(), Fault::runtime);
  }
}

// A full disk, played by a limit on the size of files.
TEST(AtomicFile, FailedWriteKeepsTheOldFileAndRemovesTheTemporary) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "a.txt", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    int status = 1;
    try {
      write_file_atomically(directory / "a.txt", std::string(10'000, 'x'));
    } catch (const Error&) {
      status = 42;
    }
    ::_exit(status);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(read_file(directory / "a.txt"), "old");
  EXPECT_EQ(count_entries(directory.path()), 1u);
}

}  // namespace
}  // namespace trifold
