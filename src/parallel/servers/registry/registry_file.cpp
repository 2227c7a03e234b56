#include "parallel/servers/registry/registry_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "parallel/servers/json_fields.h"

namespace trifold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kFormat = 1;

struct OpenFile {
  explicit OpenFile(int opened) : descriptor(opened) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  int descriptor = -1;
};

void write_durably(const fs::path& file, const std::string& text) {
  const OpenFile out(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  std::size_t written = 0;
  while (out.descriptor >= 0 && written < text.size()) {
    const auto count = ::write(out.descriptor, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<std::size_t>(count);
  }
  if (out.descriptor < 0 || written < text.size() || ::fsync(out.descriptor) != 0)
    fail_runtime("cannot write the registry's state '{}': {}", file.string(), std::strerror(errno));
}

Json to_json(const RegistryState& state) {
  Json leases = Json::array();
  for (const auto& [id, lives] : state.leases) leases.push_back({{"id", id}, {"lives_ms", lives.count()}});
  Json entries = Json::array();
  for (const auto& [name, entry] : state.entries)
    entries.push_back({{"name", name}, {"text", entry.text}, {"revision", entry.revision}, {"lease", entry.lease}});
  return {{"format", kFormat},
          {"revision", state.revision},
          {"last_lease", state.last_lease},
          {"leases", std::move(leases)},
          {"entries", std::move(entries)}};
}

RegistryState from_json(const Json& json) {
  if (integer_field(json, "format") != kFormat) fail_runtime("it was written by another version of Trifold");
  RegistryState state{.revision = integer_field(json, "revision"), .last_lease = integer_field(json, "last_lease")};
  for (const Json& lease : array_field(json, "leases"))
    state.leases[integer_field(lease, "id", 1)] = std::chrono::milliseconds(integer_field(lease, "lives_ms", 1));
  for (const Json& entry : array_field(json, "entries")) {
    const LeaseId lease = integer_field(entry, "lease");
    // A name that nobody could ever remove would be a member that never dies.
    if (lease != 0 && !state.leases.contains(lease)) fail_runtime("a name has a lease that there is not");
    state.entries[text_field(entry, "name")] = {
        .text = text_field(entry, "text"), .revision = integer_field(entry, "revision", 1), .lease = lease};
  }
  return state;
}

}  // namespace

void save_registry(const RegistryState& state, const fs::path& file) {
  const fs::path next = file.string() + ".next";  // one process keeps a registry, so nobody else writes it
  write_durably(next, to_json(state).dump());
  if (::rename(next.c_str(), file.c_str()) != 0)
    fail_runtime("cannot replace the registry's state '{}': {}", file.string(), std::strerror(errno));
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const OpenFile opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot sync a directory and say EINVAL.
  if (opened.descriptor < 0 || (::fsync(opened.descriptor) != 0 && errno != EINVAL))
    fail_runtime("cannot make the registry's state '{}' durable: {}", file.string(), std::strerror(errno));
}

std::optional<RegistryState> load_registry(const fs::path& file) {
  if (!fs::exists(file)) return {};
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) fail_runtime("cannot read the registry's state '{}'", file.string());
  try {
    return from_json(parse_object(text.str(), "it"));
  } catch (const Error& error) {
    fail_runtime("the registry's state '{}' is damaged ({}); without the file the job starts from its last checkpoint",
                 file.string(), error.what());
  }
}

}  // namespace trifold
