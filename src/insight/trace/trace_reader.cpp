#include "insight/trace/trace_reader.h"

#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "insight/trace/trace_program.h"
#include "insight/trace/trace_tally.h"

namespace trifold {
namespace {

// Hears the file's tokens one after the other. Events lie in an array: the root, or its "traceEvents".
class TraceListener : public nlohmann::json_sax<nlohmann::json> {
 public:
  TraceListener(TraceTally& tally, const std::istream& stream) : tally_(tally), stream_(stream) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& value) override {
    if (at_event()) {
      if (field_ == "ph")
        event_.phase.swap(value);
      else if (field_ == "name")
        event_.name.swap(value);
      else if (field_ == "cat")
        event_.category.swap(value);
    } else if (at_args() && key_ == "name") {
      event_.arg_name.swap(value);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == events_depth_ + 1 && in_events_) event_ = {};
    return true;
  }
  bool end_object() override {
    if (at_event()) tally_.add(event_);
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 1 || (depth_ == 2 && root_key_ == "traceEvents")) {
      in_events_ = true;
      events_depth_ = depth_;
    }
    return true;
  }
  bool end_array() override {
    if (depth_ == events_depth_) in_events_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) root_key_ = name;
    if (at_event()) field_ = name;
    key_.swap(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    const std::string_view why = error.what();
    const std::size_t line_at = why.find("at line ");
    const std::string_view line =
        line_at == why.npos ? "" : why.substr(line_at + 8, why.find(',', line_at) - line_at - 8);
    fault_ = fmt::format("{} byte {}, line {}", stream_.eof() ? "ends in the middle, at" : "is no JSON any more at",
                         position, line);
    return false;
  }

  const std::string& fault() const { return fault_; }

 private:
  bool at_event() const { return in_events_ && depth_ == events_depth_ + 1; }
  bool at_args() const { return in_events_ && depth_ == events_depth_ + 2 && field_ == "args"; }

  bool number(double value) {
    if (at_event()) {
      if (field_ == "ts")
        event_.ts = value;
      else if (field_ == "dur")
        event_.dur = value;
      else if (field_ == "pid")
        event_.rank = static_cast<int>(value);
      else if (field_ == "tid")
        event_.track = static_cast<int>(value);
      else if (field_ == "id")
        event_.id = value;
    } else if (at_args() && key_ == "round") {
      event_.arg_round = static_cast<int>(value);
    } else if (!in_events_ && depth_ == 2 && root_key_ == "otherData") {
      tally_.note(key_, value);
    }
    return true;
  }

  TraceTally& tally_;
  const std::istream& stream_;
  TraceEvent event_;
  int depth_ = 0;
  int events_depth_ = 0;
  bool in_events_ = false;
  std::string root_key_, field_, key_;
  std::string fault_;
};

}  // namespace

TraceSummary read_trace(std::istream& stream, const std::string& name) {
  TraceTally tally;
  TraceListener listener(tally, stream);
  std::string fault;
  try {
    nlohmann::json::sax_parse(stream, &listener);
    fault = listener.fault();
  } catch (const Error& error) {
    fault = fmt::format("is no trace of this program before byte {}: {}", static_cast<std::int64_t>(stream.tellg()),
                        error.what());
  }
  TraceSummary found = tally.result(fault.empty());
  found.fault = fault;
  if (found.steps == 0 && fault.empty())
    fail_input("'{}' has {} events, but no step: no slice of the category \"{}\"", name, found.events,
               TraceCategory::step);
  if (found.steps == 0) fail_input("'{}' {}; no whole step was read before that", name, fault);
  return found;
}

TraceSummary read_trace(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail_input("cannot read '{}'", file.string());
  return read_trace(stream, file.string());
}

std::filesystem::path find_trace(const std::filesystem::path& run_or_file) {
  namespace fs = std::filesystem;
  if (!fs::exists(run_or_file)) fail_input("there is no '{}'", run_or_file.string());
  if (!fs::is_directory(run_or_file)) return run_or_file;
  if (fs::exists(run_or_file / "trace.json")) return run_or_file / "trace.json";
  std::set<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_or_file)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("trace-") && name.ends_with(".json")) found.insert(entry.path().string());
  }
  if (found.size() == 1) return *found.begin();
  if (found.empty())
    fail_input("'{}' has no trace; `trifold profile` and `trifold compare --trace` write one", run_or_file.string());
  fail_input("'{}' has several traces, name one: {}", run_or_file.string(), fmt::join(found, ", "));
}

}  // namespace trifold
