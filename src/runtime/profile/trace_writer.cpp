#include "runtime/profile/trace_writer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/ops/collective.h"
#include "runtime/compare/traffic.h"
#include "runtime/core/error.h"

namespace trifold {
namespace {

// Tracks of a rank's process.
constexpr int kCompute = 0;
constexpr int kStep = 1;

}  // namespace

struct TraceWriter::Event {
  char phase = 'X';
  std::string name = {};
  int rank = 0;
  int track = kCompute;
  double at_us = 0;
  double long_us = -1;  // of a slice
  std::string id = {};  // of an arrow
  nlohmann::ordered_json args = {};
};

TraceWriter::TraceWriter(const std::filesystem::path& file, const FoldedModel& model)
    : file_(file), stream_(file), model_(model), zero_(Span::Clock::now()) {
  if (!stream_) fail_runtime("cannot write '{}'", file.string());
  stream_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (int rank = 0; rank < model.plan().mesh.size(); ++rank) {
    const MeshPlace place = place_of(model.plan().mesh, rank);
    write_name(rank, kCompute, "process_name",
               fmt::format("rank {} (data {}, stage {}, tensor {})", rank, place.data, place.pipeline, place.tensor));
    write_name(rank, kCompute, "thread_name", "compute");
    write_name(rank, kStep, "thread_name", "steps");
  }
}

double TraceWriter::us(Span::Clock::time_point time) const {
  return std::chrono::duration<double, std::micro>(time - zero_).count();
}

void TraceWriter::write_name(int rank, int track, const char* kind, const std::string& name) {
  write({.phase = 'M', .name = kind, .rank = rank, .track = track, .args = {{"name", name}}});
}

void TraceWriter::write(const Event& event) {
  nlohmann::ordered_json json = {{"ph", std::string(1, event.phase)},
                                 {"name", event.name},
                                 {"pid", event.rank},
                                 {"tid", event.track},
                                 {"ts", event.at_us}};
  if (event.long_us >= 0) json["dur"] = event.long_us;
  if (!event.id.empty()) {
    json["cat"] = "message";
    json["id"] = event.id;
  }
  if (event.phase == 'f') json["bp"] = "e";  // the arrow ends at the slice around it
  if (!event.args.is_null()) json["args"] = event.args;
  stream_ << (first_ ? "\n" : ",\n") << json.dump();
  first_ = false;
}

void TraceWriter::write_rank(int rank, const Step& step, const std::vector<Span>& spans) {
  const auto& chunks = model_.chunks(rank);
  const MeshPlace place = place_of(model_.plan().mesh, rank);
  // Runs of kernels of one layer in one phase of one micro-batch are a slice of their own.
  const auto group_of = [&](const Span& span) {
    if (span.kind != Span::Kind::node) return std::string();
    const Graph& graph = chunks[static_cast<std::size_t>(span.chunk)]->training().program().graph;
    const Node& node = graph.nodes[static_cast<std::size_t>(span.node)];
    return node.layer < 0
               ? std::string()
               : fmt::format("{} {}", name_of(node.phase), graph.layers[static_cast<std::size_t>(node.layer)].id);
  };
  double in_flight = 0;
  for (std::size_t i = 0; i < spans.size();) {
    const std::string group = group_of(spans[i]);
    std::size_t end = i + 1;
    while (!group.empty() && end < spans.size() && group_of(spans[end]) == group &&
           spans[end].micro_batch == spans[i].micro_batch && spans[end].chunk == spans[i].chunk)
      ++end;
    if (!group.empty())
      write({.name = group,
             .rank = rank,
             .at_us = us(spans[i].begin),
             .long_us = us(spans[end - 1].end) - us(spans[i].begin),
             .args = {{"step", step.number}, {"micro_batch", spans[i].micro_batch}}});
    for (; i < end; ++i) {
      const Span& span = spans[i];
      Event event{.rank = rank, .at_us = us(span.begin), .long_us = us(span.end) - us(span.begin)};
      event.args = {{"micro_batch", span.micro_batch}};
      if (span.kind == Span::Kind::input) {
        event.name = "copy batch";
        write(event);
        continue;
      }
      const Program& program = chunks[static_cast<std::size_t>(span.chunk)]->training().program();
      const Node& node = program.graph.nodes[static_cast<std::size_t>(span.node)];
      event.name = span.kind == Span::Kind::settle ? "wait for the receiver" : std::string(node.op->name());
      event.args["kernel"] = program.kernels[static_cast<std::size_t>(span.node)]->implementation();
      event.args["flops"] = program.flops(node);
      event.args["bytes"] = program.bytes_moved(node);
      write(event);
      const auto* message = dynamic_cast<const StageMessage*>(node.op.get());
      if (message == nullptr || span.kind != Span::Kind::node) continue;
      const bool sends = node.out.empty();
      const ValueId value = sends ? node.in[0] : node.out[0];
      const auto bytes = static_cast<double>(program.descs[static_cast<std::size_t>(value)].bytes());
      // Messages of a tag between two stages come in order; each micro-batch has one of each tag and route.
      write({.phase = sends ? 's' : 'f',
             .name = "message",
             .rank = rank,
             .at_us = us(sends ? span.begin : span.end),
             .id = fmt::format("{}.{}.{}.{}.{}.{}", step.number, place.data, place.tensor, message->route, message->tag,
                               span.micro_batch)});
      in_flight += sends ? bytes : 0;
      if (sends)
        write({.phase = 'C', .name = "bytes sent", .rank = rank, .at_us = us(span.end), .args = {{"step", in_flight}}});
    }
  }
}

void TraceWriter::write_step(const Step& step, std::span<const SpanLog> ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = static_cast<int>(i);
    write({.name = fmt::format("step {}", step.number),
           .rank = rank,
           .track = kStep,
           .at_us = us(step.begin),
           .long_us = us(step.end) - us(step.begin)});
    write({.name = "wait for data",
           .rank = rank,
           .track = kStep,
           .at_us = us(step.begin),
           .long_us = us(step.loaded) - us(step.begin)});
    write({.phase = 'C',
           .name = "memory",
           .rank = rank,
           .at_us = us(step.begin),
           .args = {{"bytes", static_cast<double>(model_.memory_bytes(rank))}}});
    write_rank(rank, step, ranks[i].spans());
  }
  if (const auto scale = model_.loss_scale())
    write({.phase = 'C', .name = "loss scale", .at_us = us(step.end), .args = {{"scale", scale->scale}}});
}

void TraceWriter::finish() {
  stream_ << "\n]}\n";
  stream_.close();
  if (!stream_) fail_runtime("cannot write '{}': is the disk full?", file_.string());
}

}  // namespace trifold
