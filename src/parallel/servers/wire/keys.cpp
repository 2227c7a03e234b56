#include "parallel/servers/wire/keys.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <span>
#include <sstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "core/error.h"
#include "core/file_descriptor.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyLetters = 40;
constexpr ::off_t kLargestKeyFile = 1 << 20;  // bytes

class KeyFile {
 public:
  KeyFile(fs::path path, int flags) : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags, 0600)) {}

  bool open() const { return descriptor_.is_open(); }

  struct stat status() const {
    struct stat status = {};
    if (::fstat(descriptor_.get(), &status) != 0)
      fail_input("cannot read '{}': {}", path_.string(), std::strerror(errno));
    return status;
  }

  std::string text() const {
    const struct stat about = status();
    if (!S_ISREG(about.st_mode) || about.st_size > kLargestKeyFile)
      fail_input("'{}' is no file of keys", path_.string());
    std::string text(static_cast<std::size_t>(about.st_size), '\0');
    if (::pread(descriptor_.get(), text.data(), text.size(), 0) != about.st_size)
      fail_input("cannot read '{}': {}", path_.string(), std::strerror(errno));
    return text;
  }

  void write(const std::string& text) const {
    write_all(descriptor_, std::as_bytes(std::span(text)), path_);
    if (::fsync(descriptor_.get()) != 0) fail_runtime("cannot write '{}': {}", path_.string(), std::strerror(errno));
  }

 private:
  fs::path path_;
  FileDescriptor descriptor_;
};

fs::path secret_file(const fs::path& folder, const std::string& member) {
  return folder / (member + ".secret");
}
fs::path trusted_file(const fs::path& folder) {
  return folder / "trusted";
}

void check_name(const std::string& member) {
  const bool fine =
      !member.empty() && member.size() <= 100 && member[0] != '.' && std::ranges::all_of(member, [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
               c == '_';
      });
  if (!fine) fail_input("'{}' is no name of a member; use letters, digits, '.', '-' and '_'", member);
}

// The key is checked by its use: 40 letters that are no Z85 are none either.
void check_key(const std::string& key, const std::string& where) {
  if (key.size() != kKeyLetters) fail_input("{} has {} letters where a key has {}", where, key.size(), kKeyLetters);
  std::array<std::uint8_t, 32> bytes = {};
  if (zmq_z85_decode(bytes.data(), key.c_str()) == nullptr) fail_input("{} has letters that are in no key", where);
}

struct TrustedKey {
  std::string key;
  std::string member;
};

std::vector<TrustedKey> read_trusted(const fs::path& path, const std::string& text) {
  std::vector<TrustedKey> keys;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    TrustedKey entry;
    words >> entry.key;
    // Z85 has the letter # too.
    const bool comment = entry.key.starts_with('#') && entry.key.size() != kKeyLetters;
    if (entry.key.empty() || comment) continue;
    check_key(entry.key, fmt::format("line {} of '{}'", number, path.string()));
    words >> entry.member;
    keys.push_back(std::move(entry));
  }
  return keys;
}

std::string public_key_of(const std::string& secret, const fs::path& path) {
  std::array<char, kKeyLetters + 1> key = {};
  if (zmq_curve_public(key.data(), secret.c_str()) != 0)
    fail_input("'{}' holds no secret key: {}", path.string(), zmq_strerror(errno));
  return key.data();
}

std::string stripped(std::string text) {
  while (!text.empty() && std::strchr(" \t\r\n", text.back()) != nullptr) text.pop_back();
  return text;
}

std::string read_secret(const fs::path& folder, const std::string& member) {
  const fs::path path = secret_file(folder, member);
  const KeyFile file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!file.open())
    fail_input("no key of member '{}' ('{}': {}); make one with: trifold keys {} --members {}", member, path.string(),
               std::strerror(errno), folder.string(), member);
  if ((file.status().st_mode & (S_IRWXG | S_IRWXO)) != 0)
    fail_input("the secret key '{}' can be read by others: chmod 600 {}", path.string(), path.string());
  std::string secret = stripped(file.text());
  check_key(secret, fmt::format("'{}'", path.string()));
  return secret;
}

}  // namespace

KeyPair make_key_pair() {
  std::array<char, kKeyLetters + 1> public_key = {}, secret_key = {};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0)
    fail_runtime("no keys can be made: {} (is ZeroMQ built with CURVE?)", zmq_strerror(errno));
  return {.public_key = public_key.data(), .secret_key = secret_key.data()};
}

void make_keys(const fs::path& folder, const std::vector<std::string>& members) {
  if (members.empty()) fail_input("keys of no member were asked for");
  std::set<std::string> names;
  for (const std::string& member : members) {
    check_name(member);
    if (!names.insert(member).second) fail_input("member '{}' is named twice", member);
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_input("cannot make the folder '{}': {}", folder.string(), error.message());
  std::string list;
  if (const KeyFile file(trusted_file(folder), O_RDONLY | O_CLOEXEC); file.open()) {
    list = file.text();
    if (!list.empty() && list.back() != '\n') list += '\n';
    for (const TrustedKey& entry : read_trusted(trusted_file(folder), list))
      if (names.contains(entry.member))
        fail_input("member '{}' has a key in '{}'; remove it there first", entry.member, trusted_file(folder).string());
  }
  for (const std::string& member : members)
    if (fs::exists(secret_file(folder, member)))
      fail_input("'{}' exists, and a key is not overwritten; remove it first", secret_file(folder, member).string());

  std::vector<fs::path> made;
  try {
    const auto create = [&](const fs::path& path, const std::string& text) {
      const KeyFile file(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
      if (!file.open()) fail_input("cannot make '{}': {}", path.string(), std::strerror(errno));
      made.push_back(path);
      file.write(text);
    };
    for (const std::string& member : members) {
      const KeyPair pair = make_key_pair();
      create(secret_file(folder, member), pair.secret_key + "\n");
      list += fmt::format("{} {}\n", pair.public_key, member);
    }
    const fs::path next = folder / fmt::format("trusted.{}", ::getpid());
    create(next, list);
    fs::permissions(next,
                    fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read);
    fs::rename(next, trusted_file(folder));
  } catch (...) {
    for (const fs::path& path : made) fs::remove(path, error);
    throw;
  }
}

namespace {

std::vector<TrustedKey> load_trusted(const fs::path& folder) {
  const fs::path path = trusted_file(folder);
  const KeyFile file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!file.open()) fail_input("no list of trusted keys ('{}': {})", path.string(), std::strerror(errno));
  return read_trusted(path, file.text());
}

}  // namespace

std::string load_public_key(const fs::path& folder, const std::string& member) {
  for (const TrustedKey& entry : load_trusted(folder))
    if (entry.member == member) return entry.key;
  fail_input("'{}' has no key of member '{}': add its line there", trusted_file(folder).string(), member);
}

Credentials load_credentials(const fs::path& folder, const std::string& member) {
  check_name(member);
  Credentials credentials;
  credentials.own.secret_key = read_secret(folder, member);
  credentials.own.public_key = public_key_of(credentials.own.secret_key, secret_file(folder, member));
  const fs::path path = trusted_file(folder);
  for (const TrustedKey& entry : load_trusted(folder)) credentials.trusted.push_back(entry.key);
  if (!std::ranges::count(credentials.trusted, credentials.own.public_key))
    fail_input(
        "the key of member '{}' is not in '{}', so no other would let it in: add the line '{} {}' there, and to "
        "the lists of the others",
        member, path.string(), credentials.own.public_key, member);
  return credentials;
}

}  // namespace trifold
