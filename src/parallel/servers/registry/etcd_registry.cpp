#include "parallel/servers/registry/etcd_registry.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>

#include "core/base64.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;
using WatchClock = std::chrono::steady_clock;
using EtcdJson = nlohmann::json;
using Repeat = EtcdGateway::Repeat;

// A member that vanished without a word looks like one that has nothing to tell, so a silent watch is opened anew.
constexpr auto kLongestSilence = 5s;

std::string coded(const std::string& text) {
  return to_base64(std::as_bytes(std::span(text)));
}

// Absent means empty, as everywhere in this JSON.
std::string decoded_field(const EtcdJson& json, const char* name) {
  const EtcdJson value = json.is_object() ? json.value(name, EtcdJson("")) : EtcdJson("");
  const auto text = value.is_string() ? from_base64(value.get<std::string>()) : std::nullopt;
  if (!text) fail_runtime("etcd's answer is damaged: '{}' is no base64", name);
  return *text;
}

// Numbers of 64 bits are texts; absent means 0.
std::int64_t number_field(const EtcdJson& json, const char* name) {
  const EtcdJson value = json.is_object() ? json.value(name, EtcdJson("0")) : EtcdJson("0");
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::int64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ptr != text.data() + text.size())
    fail_runtime("etcd's answer is damaged: '{}' is no number", name);
  return number;
}

EtcdJson part_of(const EtcdJson& json, const char* name) {
  return json.is_object() ? json.value(name, EtcdJson()) : EtcdJson();
}

std::int64_t revision_of(const EtcdJson& answer) {
  return number_field(part_of(answer, "header"), "revision");
}

// The end of the range of all keys that begin so; ours end with a '/' or a name's letter, never with 0xFF.
std::string after_all(std::string prefix) {
  ++prefix.back();
  return prefix;
}

std::string root_of(const std::string& job) {
  const bool plain = std::all_of(job.begin(), job.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '.';
  });
  if (job.empty() || !plain)
    fail_input("'{}' cannot be a job's name in etcd: letters, digits, '-', '_' and '.' can", job);
  return "/trifold/" + job + "/";
}

}  // namespace

struct EtcdRegistry::Watch {
  std::unique_ptr<HttpStream> stream;
  std::string prefix;
  std::int64_t revision = 0;  // of the last change it told
  WatchClock::time_point heard;
};

EtcdRegistry::EtcdRegistry(const EtcdRegistryOptions& options)
    : root_(root_of(options.job)), gateway_(options.endpoints) {}

EtcdRegistry::~EtcdRegistry() = default;

LeaseId EtcdRegistry::grant(std::chrono::milliseconds lives) {
  const auto seconds = std::max(std::chrono::ceil<std::chrono::seconds>(lives), std::chrono::seconds(1));
  const EtcdJson answer = gateway_.call("/v3/lease/grant", {{"TTL", std::to_string(seconds.count())}}, Repeat::freely);
  return number_field(answer, "ID");
}

bool EtcdRegistry::keep_alive(LeaseId lease) {
  const EtcdJson answer = gateway_.call("/v3/lease/keepalive", {{"ID", std::to_string(lease)}}, Repeat::freely);
  return number_field(part_of(answer, "result"), "TTL") > 0;
}

void EtcdRegistry::revoke(LeaseId lease) {
  try {
    gateway_.call("/v3/lease/revoke", {{"ID", std::to_string(lease)}}, Repeat::freely);
  } catch (const Unreachable&) {
    throw;
  } catch (const Error&) {
    // One that is not there is as good as revoked; the first of two tries may have done it.
    if (keep_alive(lease)) throw;
  }
}

std::optional<RegistryEntry> EtcdRegistry::get(const std::string& name) {
  auto entries = entries_in(gateway_.call("/v3/kv/range", {{"key", coded(root_ + name)}}, Repeat::freely));
  if (entries.empty()) return {};
  return std::move(entries.front());
}

std::vector<RegistryEntry> EtcdRegistry::list(const std::string& prefix) {
  return entries_in(gateway_.call("/v3/kv/range", range_of(prefix), Repeat::freely));
}

std::optional<std::int64_t> EtcdRegistry::put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                                 LeaseId lease) {
  const std::string key = coded(root_ + name);
  const EtcdJson put = {{"key", key}, {"value", coded(text)}, {"lease", std::to_string(lease)}};
  const EtcdJson same = {{"key", key}, {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", std::to_string(seen)}};
  const EtcdJson answer = gateway_.call(
      "/v3/kv/txn", {{"compare", EtcdJson::array({same})}, {"success", EtcdJson::array({{{"request_put", put}}})}},
      Repeat::if_lost);
  if (part_of(answer, "succeeded") != EtcdJson(true)) return {};
  return revision_of(answer);
}

void EtcdRegistry::put(const std::string& name, const std::string& text, LeaseId lease) {
  gateway_.call("/v3/kv/put", {{"key", coded(root_ + name)}, {"value", coded(text)}, {"lease", std::to_string(lease)}},
                Repeat::if_lost);
}

void EtcdRegistry::remove(const std::string& name) {
  gateway_.call("/v3/kv/deleterange", {{"key", coded(root_ + name)}}, Repeat::if_lost);
}

std::vector<RegistryChange> EtcdRegistry::changes(const std::string& prefix, std::int64_t& revision,
                                                  std::chrono::milliseconds timeout) {
  const auto deadline = WatchClock::now() + timeout;
  std::vector<RegistryChange> found;
  if (revision == 0) found = present(prefix, revision);
  std::size_t failures = 0;  // in a row
  while (found.empty()) {
    try {
      if (!watch_ || watch_->prefix != prefix || watch_->revision != revision ||
          WatchClock::now() >= watch_->heard + kLongestSilence)
        open_watch(prefix, revision);
      const auto end = std::min(deadline, watch_->heard + kLongestSilence);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - WatchClock::now());
      const auto line = watch_->stream->next_line(std::max(left, 0ms));
      if (!line && WatchClock::now() >= deadline) return {};
      if (!line) continue;
      watch_->heard = WatchClock::now();
      failures = 0;
      if (!read_watch(*line, found)) {
        watch_.reset();
        found = present(prefix, revision);
      } else if (!found.empty()) {
        revision = watch_->revision = found.back().entry.revision;
      }
    } catch (const HttpFailure& failure) {
      watch_.reset();
      gateway_.next_endpoint();
      if (++failures > gateway_.endpoints().urls.size())
        throw Unreachable(fmt::format("etcd tells no changes ({})", failure.what()));
    }
  }
  return found;
}

EtcdJson EtcdRegistry::range_of(const std::string& prefix) const {
  return {{"key", coded(root_ + prefix)}, {"range_end", coded(after_all(root_ + prefix))}};
}

std::vector<RegistryEntry> EtcdRegistry::entries_in(const EtcdJson& answer) const {
  std::vector<RegistryEntry> entries;
  for (const EtcdJson& kv : part_of(answer, "kvs"))
    entries.push_back(
        {.name = name_in(kv), .text = decoded_field(kv, "value"), .revision = number_field(kv, "mod_revision")});
  return entries;
}

std::string EtcdRegistry::name_in(const EtcdJson& kv) const {
  const std::string key = decoded_field(kv, "key");
  if (!key.starts_with(root_)) fail_runtime("etcd's answer is damaged: '{}' is not of this job", key);
  return key.substr(root_.size());
}

std::vector<RegistryChange> EtcdRegistry::present(const std::string& prefix, std::int64_t& revision) {
  const EtcdJson answer = gateway_.call("/v3/kv/range", range_of(prefix), Repeat::freely);
  std::vector<RegistryChange> found;
  for (RegistryEntry& entry : entries_in(answer)) found.push_back({.entry = std::move(entry)});
  revision = revision_of(answer);
  return found;
}

void EtcdRegistry::open_watch(const std::string& prefix, std::int64_t revision) {
  EtcdJson range = range_of(prefix);
  range["start_revision"] = std::to_string(revision + 1);
  auto watch = std::make_unique<Watch>();
  watch->stream = gateway_.stream("/v3/watch", {{"create_request", std::move(range)}});
  watch->prefix = prefix;
  watch->revision = revision;
  watch->heard = WatchClock::now();
  const auto line = watch->stream->next_line(gateway_.endpoints().one_patience);
  if (!line || !part_of(part_of(EtcdJson::parse(*line, nullptr, false), "result"), "created").is_boolean())
    throw HttpFailure(true, fmt::format("no watch is given: {}", line.value_or("no answer")));
  watch_ = std::move(watch);
}

bool EtcdRegistry::read_watch(const std::string& line, std::vector<RegistryChange>& changes) {
  const EtcdJson result = part_of(EtcdJson::parse(line, nullptr, /*allow_exceptions=*/false), "result");
  if (!result.is_object()) throw HttpFailure(true, "the watch has ended: " + line);
  if (number_field(result, "compact_revision") > 0) return false;
  if (part_of(result, "canceled") == EtcdJson(true)) throw HttpFailure(true, "the watch has ended: " + line);
  for (const EtcdJson& event : part_of(result, "events")) {
    const EtcdJson kv = part_of(event, "kv");
    changes.push_back({.entry = {.name = name_in(kv),
                                 .text = decoded_field(kv, "value"),
                                 .revision = number_field(kv, "mod_revision")},
                       .removed = part_of(event, "type") == EtcdJson("DELETE")});
  }
  return true;
}

}  // namespace trifold
