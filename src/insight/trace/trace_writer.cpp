#include "insight/trace/trace_writer.h"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trifold {
namespace {

// Tracks of a rank's process.
constexpr int kComputeTrack = 0;
constexpr int kStepTrack = 1;
constexpr int kAsideTrack = 2;

constexpr std::size_t kFlushBytes = 1 << 20;

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// What follows a slice's times; `args` is the inside of an object.
std::string slice_text(const std::string& name, const char* category, int rank, int track, const std::string& args) {
  return fmt::format(R"("ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"args":{{{})", json_quoted(name), category,
                     rank, track, args);
}

// Within a slice: at its very end Perfetto would find the slice closed.
std::int64_t last_moment(std::int64_t begin_ns, std::int64_t end_ns) {
  return std::max(begin_ns, end_ns - 1);
}

}  // namespace

TraceWriter::TraceWriter(const std::filesystem::path& file, std::vector<TraceRank> ranks, Time zero)
    : file_(file), stream_(file, std::ios::binary), zero_(zero) {
  if (!stream_) fail_runtime("cannot write '{}'", file.string());
  buffer_.reserve(kFlushBytes + (kFlushBytes >> 2));
  fmt::format_to(std::back_inserter(buffer_), "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  for (TraceRank& rank : ranks) {
    RankText& text = ranks_.emplace_back(RankText{.rank = std::move(rank)});
    describe(text);
    write_name(text.rank.rank, kComputeTrack, "process_name", text.rank.name);
    write_name(text.rank.rank, kComputeTrack, "thread_name", "compute");
    write_name(text.rank.rank, kStepTrack, "thread_name", "steps");
    write_name(text.rank.rank, kAsideTrack, "thread_name", "communication");
  }
}

void TraceWriter::describe(RankText& rank) const {
  const int number = rank.rank.rank;
  for (const std::vector<TraceNode>& chunk : rank.rank.chunks) {
    std::vector<NodeText>& texts = rank.nodes.emplace_back();
    rank.last_span.emplace_back(chunk.size(), -1);
    for (const TraceNode& node : chunk) {
      std::string args =
          fmt::format(R"("kernel":{},"flops":{},"bytes":{},)", json_quoted(node.kernel), node.flops, node.bytes);
      if (!node.layer.empty()) args += fmt::format(R"("layer":{},)", json_quoted(node.layer));
      if (!node.axis.empty())
        args += fmt::format(R"("axis":"{}","group":"{}","sent":{},)", node.axis, fmt::join(node.ranks, " "),
                            node.sent_bytes);
      args += R"("micro_batch":)";
      texts.push_back(
          {.slice = slice_text(node.name, node.category.c_str(), number, kComputeTrack, args),
           .settle = slice_text("wait for the receiver", TraceCategory::message, number, kComputeTrack, args),
           .group = node.group.empty()
                        ? ""
                        : slice_text(node.group, TraceCategory::layer, number, kComputeTrack, R"("micro_batch":)")});
    }
  }
}

std::int64_t TraceWriter::ns(Time time) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time - zero_).count();
}

// --- events

// Times are in microseconds. They are written from whole nanoseconds, so that what nests still does as text.
void TraceWriter::begin_event(std::int64_t at_ns) {
  const std::string_view separator = first_ ? "\n" : ",\n";
  first_ = false;
  const char* sign = at_ns < 0 ? "-" : "";  // a clock's error, at most
  const std::int64_t size = std::abs(at_ns);
  fmt::format_to(std::back_inserter(buffer_), FMT_STRING("{}{{\"ts\":{}{}.{:03},"), separator, sign, size / 1000,
                 size % 1000);
}

void TraceWriter::write_slice(std::string_view text, std::int64_t begin_ns, std::int64_t end_ns) {
  begin_event(begin_ns);
  const std::int64_t size = std::max<std::int64_t>(0, end_ns - begin_ns);
  fmt::format_to(std::back_inserter(buffer_), FMT_STRING("\"dur\":{}.{:03},"), size / 1000, size % 1000);
  buffer_.append(text);
}

void TraceWriter::write_name(int rank, int track, const char* kind, const std::string& name) {
  begin_event(0);
  fmt::format_to(std::back_inserter(buffer_), R"("ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", kind,
                 rank, track, json_quoted(name));
}

// Perfetto takes numbers only as an arrow's id: it reads a text as a hexadecimal one.
void TraceWriter::write_arrow(char phase, const char* name, std::int64_t id, int rank, std::int64_t at_ns) {
  begin_event(at_ns);
  fmt::format_to(std::back_inserter(buffer_), FMT_STRING("\"ph\":\"{}\",\"name\":\"{}\",\"cat\":\"{}\",\"id\":{},"),
                 phase, name, name, id);
  fmt::format_to(std::back_inserter(buffer_), FMT_STRING("\"pid\":{},\"tid\":{}{}}}"), rank, kComputeTrack,
                 phase == 'f' ? ",\"bp\":\"e\"" : "");
}

void TraceWriter::write_counter(const char* name, const char* series, int rank, std::int64_t at_ns, double value) {
  begin_event(at_ns);
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING("\"ph\":\"C\",\"name\":\"{}\",\"pid\":{},\"tid\":0,\"args\":{{\"{}\":{}}}}}"), name, rank,
                 series, value);
}

// --- a rank's step

// Runs of kernels of one layer in one phase of one micro-batch are a slice of their own. `grouped`: up to where they
// have been written.
void TraceWriter::write_groups(const RankText& rank, const TracedStep& traced, std::size_t& grouped, std::size_t at) {
  if (at < grouped) return;
  const auto group_of = [&](const Span& span) -> const std::string* {
    if (span.kind != Span::Kind::node) return nullptr;
    const auto& texts = rank.nodes[static_cast<std::size_t>(span.chunk)];
    const std::string& group = texts[static_cast<std::size_t>(span.node)].group;
    return group.empty() ? nullptr : &group;
  };
  const Span& first = traced.spans[at];
  const std::string* group = group_of(first);
  grouped = at + 1;
  if (group == nullptr) return;
  for (; grouped < traced.spans.size(); ++grouped) {
    const Span& next = traced.spans[grouped];
    const std::string* its = group_of(next);
    if (its == nullptr || next.chunk != first.chunk || next.micro_batch != first.micro_batch || *its != *group) break;
  }
  write_slice(*group, ns(first.begin), ns(traced.spans[grouped - 1].end));
  fmt::format_to(std::back_inserter(buffer_), FMT_STRING("{},\"step\":{}}}}}"), first.micro_batch, traced.step.number);
}

void TraceWriter::write_memory(RankText& rank, const Span& span) {
  const TraceNode& node = rank.rank.chunks[static_cast<std::size_t>(span.chunk)][static_cast<std::size_t>(span.node)];
  double& kept = rank.kept[{span.chunk, span.micro_batch}];
  kept = node.kept_bytes;
  double bytes = rank.rank.fixed_bytes + node.arena_bytes;
  for (const auto& [micro_batch, of_slot] : rank.kept) bytes += of_slot;
  kept = node.kept_after;
  if (bytes == rank.memory) return;
  rank.memory = bytes;
  write_counter("memory in use", "bytes", rank.rank.rank, ns(span.begin), bytes);
}

void TraceWriter::write_exchange(std::size_t index, const TracedStep& traced, std::size_t at,
                                 std::vector<std::size_t>& aside) {
  RankText& rank = ranks_[index];
  const int number = rank.rank.rank;
  const Span& span = traced.spans[at];
  const auto chunk = static_cast<std::size_t>(span.chunk);
  const TraceNode& node = rank.rank.chunks[chunk][static_cast<std::size_t>(span.node)];
  const std::int64_t begin = ns(span.begin);
  const std::int64_t end = ns(span.end);
  if (node.is_message) {
    // Each micro-batch has one message of each tag and route.
    std::vector<int> key = node.message;
    key.push_back(span.micro_batch);
    const auto [found, is_new] = messages_.try_emplace(std::move(key));
    Message& message = found->second;
    if (is_new) message.id = ++arrows_;
    if (node.sends) {
      message.sender = index;
      message.bytes = node.sent_bytes;
      message.sent_ns = begin;
    } else {
      message.received_ns = end;
    }
    write_arrow(node.sends ? 's' : 'f', "message", message.id, number, node.sends ? begin : last_moment(begin, end));
    return;
  }
  const std::ptrdiff_t maker = node.made_by < 0 ? -1 : rank.last_span[chunk][static_cast<std::size_t>(node.made_by)];
  if (maker >= 0) {
    const Span& made = traced.spans[static_cast<std::size_t>(maker)];
    write_arrow('s', "bucket", ++arrows_, number, last_moment(ns(made.begin), ns(made.end)));
    write_arrow('f', "bucket", arrows_, number, begin);
  }
  if (node.aside) {
    aside.push_back(at);
  } else if (node.sent_bytes > 0) {
    in_flight_.push_back({begin, index, node.sent_bytes});
    in_flight_.push_back({end, index, -node.sent_bytes});
  }
  if (!node.joins) return;
  // Nobody looks when a sum aside is done before it is waited for: it counts as under way until then, so those of one
  // step end together and nest.
  for (const std::size_t begun : aside) {
    const Span& sum = traced.spans[begun];
    const TraceNode& of = rank.rank.chunks[static_cast<std::size_t>(sum.chunk)][static_cast<std::size_t>(sum.node)];
    write_slice(
        slice_text(of.name, TraceCategory::aside, number, kAsideTrack,
                   fmt::format(R"("bytes":{},"axis":"{}","group":"{}")", of.bytes, of.axis, fmt::join(of.ranks, " "))),
        ns(sum.begin), end);
    buffer_.append(std::string_view("}}"));
    write_arrow('s', "bucket", ++arrows_, number, ns(sum.begin));
    write_arrow('f', "bucket", arrows_, number, last_moment(begin, end));
    in_flight_.push_back({ns(sum.begin), index, of.sent_bytes});
    in_flight_.push_back({end, index, -of.sent_bytes});
  }
  aside.clear();
}

void TraceWriter::write_rank(std::size_t index, const TracedStep& traced) {
  RankText& rank = ranks_[index];
  const int number = rank.rank.rank;
  const TraceStep& step = traced.step;
  const auto slice = [&](const std::string& name, const char* category, int track, Time begin, Time end,
                         const std::string& args = "") {
    write_slice(slice_text(name, category, number, track, args), ns(begin), ns(end));
    buffer_.append(std::string_view("}}"));
  };
  slice(fmt::format("step {}", step.number), TraceCategory::step, kStepTrack, step.begin, step.end,
        step.round < 0 ? fmt::format(R"("step":{})", step.number)
                       : fmt::format(R"("step":{},"round":{})", step.number, step.round));
  slice("wait for data", TraceCategory::input, kStepTrack, step.begin, step.loaded);
  slice("after the work", after_work_, kStepTrack, step.worked, step.end);

  for (std::vector<std::ptrdiff_t>& nodes : rank.last_span) std::ranges::fill(nodes, -1);
  rank.kept.clear();
  std::size_t grouped = 0;
  std::vector<std::size_t> aside;
  for (std::size_t i = 0; i < traced.spans.size(); ++i) {
    const Span& span = traced.spans[i];
    if (span.kind == Span::Kind::idle) {
      slice("idle", TraceCategory::idle, kComputeTrack, span.begin, span.end);
      continue;
    }
    if (span.kind == Span::Kind::input) {
      slice("copy batch", TraceCategory::input, kComputeTrack, span.begin, span.end,
            fmt::format(R"("micro_batch":{})", span.micro_batch));
      continue;
    }
    write_groups(rank, traced, grouped, i);
    const auto chunk = static_cast<std::size_t>(span.chunk);
    const NodeText& text = rank.nodes[chunk][static_cast<std::size_t>(span.node)];
    write_slice(span.kind == Span::Kind::settle ? text.settle : text.slice, ns(span.begin), ns(span.end));
    fmt::format_to(std::back_inserter(buffer_), FMT_STRING("{}}}}}"), span.micro_batch);
    if (span.kind == Span::Kind::settle) continue;
    write_memory(rank, span);
    rank.last_span[chunk][static_cast<std::size_t>(span.node)] = static_cast<std::ptrdiff_t>(i);
    if (!rank.rank.chunks[chunk][static_cast<std::size_t>(span.node)].axis.empty())
      write_exchange(index, traced, i, aside);
  }
}

// What ranks had sent, and others had not received, as it changed in the step.
void TraceWriter::write_in_flight() {
  for (const auto& [key, message] : messages_) {
    if (message.sent_ns < 0 || message.received_ns < 0) continue;
    in_flight_.push_back({message.sent_ns, message.sender, message.bytes});
    in_flight_.push_back({std::max(message.sent_ns, message.received_ns), message.sender, -message.bytes});
  }
  messages_.clear();
  std::ranges::stable_sort(in_flight_, {}, &InFlight::at_ns);
  std::vector<double> bytes(ranks_.size(), 0);
  for (const InFlight& change : in_flight_) {
    // Sizes as a ring sends them need not be whole: what is left of them is nothing.
    double& now = bytes[change.rank];
    now += change.bytes;
    if (now < 0.5) now = 0;
    write_counter("bytes in flight", "bytes", ranks_[change.rank].rank.rank, change.at_ns, now);
  }
  in_flight_.clear();
}

void TraceWriter::write_step(std::span<const TracedStep> ranks) {
  TRIFOLD_CHECK(ranks.size() == ranks_.size(), "a step of {} ranks in a trace of {}", ranks.size(), ranks_.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) write_rank(i, ranks[i]);
  write_in_flight();
  const TraceStep& first = ranks.front().step;
  if (first.loss_scale > 0)
    write_counter("loss scale", "scale", ranks_.front().rank.rank, ns(first.end), first.loss_scale);
  if (buffer_.size() >= kFlushBytes) flush();
}

void TraceWriter::flush() {
  stream_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

void TraceWriter::finish() {
  fmt::format_to(std::back_inserter(buffer_), "\n],\"otherData\":{}}}\n", nlohmann::json(notes_).dump());
  flush();
  stream_.close();
  if (!stream_) fail_runtime("cannot write '{}': is the disk full?", file_.string());
}

}  // namespace trifold
