// How quickly parameters go to servers and come back: N workers push a model and pull it, round after round, with the
// real server and client but without a network to compute. Times are the machine's steady clock, so that whoever
// started the processes can put them together. tools/checks/server_scale runs it on hosts with slow links.
//   ps_bench server   one server, until it is ended
//   ps_bench worker   one worker; prints when its rounds began and ended
//   ps_bench loopback servers and workers as threads, in turns with a plain ZeroMQ copy of the same bytes;
//                     by shared memory, as members of one machine do it, and by TCP, as others do
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "parallel/servers/aggregator/host_aggregator.h"
#include "parallel/servers/client/server_client.h"
#include "parallel/servers/server/parameter_server.h"
#include "parallel/servers/wire/keys.h"
#include "plain_copy.h"

namespace {

using namespace trifold;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTensors = 16;  // of equal size
constexpr const char* kFirstValues = "first values";
constexpr const char* kHeadAddress = "tcp://127.0.0.1:7100";  // of every host

struct BenchArgs {
  std::vector<std::string> addresses = {};  // of servers, in their order
  int server = 0;
  int worker = 0;
  int workers = 4;
  int servers = 1;  // loopback
  std::int64_t bytes = std::int64_t{8} << 20;
  int rounds = 20;
  int pause_ms = 300;  // between rounds
  int per_host = 1;    // workers; several go through a head, the first of them
  double keep = 1;     // share of a gradient that is pushed
  double momentum = 0.9;
  bool shares = true;                                  // memory, where all are on this machine
  std::string keys = {};                               // folder
  std::string only = {};                               // loopback: one of what is measured; empty: all
  std::size_t plain_message = std::size_t{256} << 10;  // loopback: bytes, as long as push+pull's are
};

std::string server_name(int server) {
  return fmt::format("server{}", server);
}

std::string worker_name(int worker) {
  return fmt::format("worker{}", worker);
}

std::vector<ServedTensor> tensors_of(std::int64_t bytes) {
  const std::int64_t elements = bytes / static_cast<std::int64_t>(sizeof(float)) / kTensors;
  std::vector<ServedTensor> tensors;
  for (std::int64_t i = 0; i < kTensors; ++i)
    tensors.push_back({.name = fmt::format("layer{}.weight", i), .elements = elements});
  return tensors;
}

std::optional<Credentials> credentials_of(const BenchArgs& args, const std::string& member) {
  if (args.keys.empty()) return std::nullopt;
  return load_credentials(args.keys, member);
}

MailboxOptions mailbox_options(const BenchArgs& args, const std::string& member, const std::string& listen = {}) {
  MailboxOptions options{.listen = listen, .credentials = credentials_of(args, member)};
  if (!args.shares) options.shared_blocks = 0;
  return options;
}

View view_of(const BenchArgs& args, std::size_t slices) {
  View view{.version = 1, .epoch = 1, .settled = true};
  for (std::size_t i = 0; i < args.addresses.size(); ++i) {
    const std::string name = server_name(static_cast<int>(i));
    view.servers.push_back({.id = name,
                            .role = "server",
                            .address = args.addresses[i],
                            .public_key = args.keys.empty() ? "" : load_public_key(args.keys, name)});
  }
  view.sources.assign(slices, kFirstValues);
  for (int i = 0; i < args.workers; ++i) {
    view.shard_owners.push_back(worker_name(i));
    if (args.per_host == 1) continue;
    if (i % args.per_host == 0)
      view.heads.push_back(
          {.member = {.id = worker_name(i),
                      .role = "worker",
                      .address = kHeadAddress,
                      .public_key = args.keys.empty() ? "" : load_public_key(args.keys, worker_name(i))},
           .workers = {}});
    view.heads.back().workers.push_back(worker_name(i));
  }
  return view;
}

// --- a server

class BenchServer {
 public:
  explicit BenchServer(const BenchArgs& args, const std::string& listen)
      : args_(args), mailbox_(mailbox_options(args, server_name(args.server), listen)) {}

  const std::string& address() const { return mailbox_.address(); }

  void run(const std::vector<std::string>& addresses, const std::atomic<bool>& stop) {
    args_.addresses = addresses;
    const std::shared_ptr<const SliceUpdate> update =
        make_optimizer_update({.kind = OptimizerKind::sgd, .momentum = args_.momentum});
    ServedLayout layout{.tensors = tensors_of(args_.bytes),
                        .states = static_cast<int>(update->state_names().size()),
                        .shards = args_.workers};
    layout.slices = cut_into_slices(layout.tensors);
    ConsistencyRules rules;
    rules.participation.shards = args_.workers;
    ParameterServer server({.id = server_name(args_.server),
                            .layout = layout,
                            .rules = rules,
                            .rule = make_aggregation({}),
                            .update = update,
                            .mailbox = &mailbox_});
    View view = view_of(args_, layout.slices.size());
    view.leader = view.servers[static_cast<std::size_t>(args_.server)];  // whom it asks for the first values: itself
    server.follow(view);
    server.handle({.from = 0, .message = first_values(layout)});
    while (!stop) {
      std::optional<Received> received = mailbox_.receive(std::chrono::milliseconds(50));
      while (received) {
        std::optional<Received> next = mailbox_.receive(std::chrono::milliseconds(0));
        server.handle(*received, next.has_value());
        received = std::move(next);
      }
      server.tick();
    }
  }

 private:
  // What a manager would have answered.
  static Message first_values(const ServedLayout& layout) {
    std::vector<NumberedState> states;
    for (int slice = 0; slice < static_cast<int>(layout.slices.size()); ++slice) {
      const auto zeros = std::make_shared<const std::vector<float>>(layout.elements_of(slice));
      states.emplace_back(
          slice, SliceState{.values = zeros,
                            .states = std::vector<SharedFloats>(static_cast<std::size_t>(layout.states), zeros),
                            .applied = std::vector<std::int64_t>(static_cast<std::size_t>(layout.shards))});
    }
    Message message{.kind = MessageKind::fetch_answer, .fields = {{"id", 0}, {"epoch", 1}}};
    put_states(message, states, layout);
    return message;
  }

  BenchArgs args_;
  Mailbox mailbox_;
};

// --- a worker

struct RoundTimes {
  std::int64_t begin_ns = 0;
  std::int64_t pulled_ns = 0;    // the last value of the next clock is here
  std::int64_t answered_ns = 0;  // all pushes are safe, on replicas too
  std::uint64_t sent_bytes = 0;  // in the round
};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

// `between` is called before every round, the first included, which is there to connect everybody.
std::vector<RoundTimes> work(const BenchArgs& args, const std::function<void()>& between) {
  const std::vector<ServedTensor> tensors = tensors_of(args.bytes);
  std::optional<HostAggregator> head;
  if (args.per_host > 1 && args.worker % args.per_host == 0) {
    HostAggregatorOptions options{.worker = worker_name(args.worker), .tensors = tensors};
    options.participation.shards = args.workers;
    options.mailbox = mailbox_options(args, options.worker, kHeadAddress);
    head.emplace(std::move(options));
  }
  ServerClient client({.tensors = tensors,
                       .worker = worker_name(args.worker),
                       .shards = args.workers,
                       .codec = {.half = false, .keep = args.keep},
                       .mailbox = mailbox_options(args, worker_name(args.worker)),
                       .pulls_overtake = true});
  const View view = view_of(args, client.slices().size());
  if (head) head->set_view(view);
  client.set_view(view);
  const auto sent_bytes = [&] { return client.counts().sent_bytes + (head ? head->traffic().sent : 0); };
  std::vector<std::vector<float>> gradients, values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    gradients.emplace_back(static_cast<std::size_t>(tensors[i].elements));
    values.emplace_back(gradients.back().size());
    for (std::size_t k = 0; k < gradients[i].size(); ++k)
      gradients[i][k] = 1e-3f * static_cast<float>((k * 7919 + i) % 1009);
  }
  std::vector<RoundTimes> times;
  for (int round = 0; round <= args.rounds; ++round) {
    between();
    const std::uint64_t sent = sent_bytes();
    RoundTimes time{.begin_ns = now_ns()};
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i)
      client.push({.tensor = i, .shard = args.worker, .clock = round, .rate = 0.01},
                  gradients[static_cast<std::size_t>(i)]);
    std::vector<PullInto> wanted;
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i)
      wanted.push_back({.tensor = i, .values = values[static_cast<std::size_t>(i)]});
    for (const ServerTicket& ticket : client.pull(args.worker, round + 1, wanted)) client.wait(ticket);
    time.pulled_ns = now_ns();
    client.wait_for_pushes();
    time.answered_ns = now_ns();
    time.sent_bytes = sent_bytes() - sent;
    if (round > 0) times.push_back(time);
  }
  if (head)
    std::this_thread::sleep_for(std::chrono::seconds(1));  // others of the host may still wait for their answers
  if (client.counts().sent_again > 0) fmt::print(stderr, "{} requests were sent again\n", client.counts().sent_again);
  return times;
}

void print(const std::vector<RoundTimes>& rounds) {
  nlohmann::json text = nlohmann::json::array();
  for (const RoundTimes& round : rounds)
    text.push_back({{"begin_ns", round.begin_ns},
                    {"pulled_ns", round.pulled_ns},
                    {"answered_ns", round.answered_ns},
                    {"sent_bytes", round.sent_bytes}});
  fmt::print("{}\n", text.dump());
}

// --- loopback

RoundCost measure_served(const BenchArgs& args) {
  std::vector<std::unique_ptr<BenchServer>> servers;
  std::vector<std::string> addresses;
  for (int i = 0; i < args.servers; ++i) {
    BenchArgs own = args;
    own.server = i;
    servers.push_back(std::make_unique<BenchServer>(own, "tcp://127.0.0.1:*"));
    addresses.push_back(servers.back()->address());
  }
  std::atomic<bool> stop = false;
  std::vector<std::jthread> serving;
  for (const auto& server : servers) serving.emplace_back([&] { server->run(addresses, stop); });
  std::vector<std::vector<RoundTimes>> times(static_cast<std::size_t>(args.workers));
  std::barrier together(args.workers);
  double cpu_begin = 0;
  {
    std::vector<std::jthread> working;
    for (int i = 0; i < args.workers; ++i)
      working.emplace_back([&, i] {
        BenchArgs own = args;
        own.worker = i;
        own.addresses = addresses;
        int rounds = 0;
        times[static_cast<std::size_t>(i)] = work(own, [&] {
          together.arrive_and_wait();
          if (i == 0 && rounds++ == 1) cpu_begin = process_cpu_seconds();
        });
      });
  }
  const double cpu_seconds = (process_cpu_seconds() - cpu_begin) / args.rounds;
  stop = true;
  std::vector<double> rounds;
  for (std::size_t round = 0; round < times.front().size(); ++round) {
    std::int64_t begin = times.front()[round].begin_ns, end = begin;
    for (const auto& worker : times) {
      begin = std::min(begin, worker[round].begin_ns);
      end = std::max(end, worker[round].pulled_ns);
    }
    rounds.push_back(static_cast<double>(end - begin) * 1e-9);
  }
  return cost_of_rounds(std::move(rounds), cpu_seconds);
}

// Memory of messages that goes back to the system and is got anew costs plain copies a quarter of their time, or
// nothing, as the allocator's thresholds happen to stand. Here nobody pays for it.
void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

// In a process of its own, so that neither finds what the other has left.
template <class Measure>
RoundCost in_a_process(const Measure& measure) {
  int ends[2] = {};
  if (::pipe(ends) != 0) fail_runtime("no pipe: {}", std::strerror(errno));
  const ::pid_t child = ::fork();
  if (child < 0) fail_runtime("no process: {}", std::strerror(errno));
  RoundCost cost;
  if (child == 0) {
    keep_freed_memory();
    cost = measure();
    const bool said = ::write(ends[1], &cost, sizeof cost) == static_cast<::ssize_t>(sizeof cost);
    ::_exit(said ? 0 : 1);
  }
  ::close(ends[1]);
  const bool heard = ::read(ends[0], &cost, sizeof cost) == static_cast<::ssize_t>(sizeof cost);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (!heard) fail_runtime("a measurement ended without a result");
  return cost;
}

// The best of the turns, which alternate: the machine is noisy. Of a turn, its best round and its median: the best of
// many rounds of a plain copy is one in which all threads happened to lie well.
void compare_on_loopback(const BenchArgs& args, int turns) {
  PlainCopyArgs plain{.workers = args.workers,
                      .servers = args.servers,
                      .bytes = static_cast<std::size_t>(args.bytes),
                      .message_bytes = args.plain_message,
                      .rounds = args.rounds};
  struct Measured {
    const char* name;
    std::function<RoundCost()> measure;
    RoundCost best = {};
  };
  std::vector<Measured> all = {{"push_pull", [&] { return measure_served(args); }},
                               {"push_pull_by_tcp",
                                [&, by_tcp = args]() mutable {
                                  by_tcp.shares = false;
                                  return measure_served(by_tcp);
                                }},
                               {"plain_zmq", [&] { return measure_plain_copy(plain); }},
                               {"plain_local_zmq",
                                [&, local = plain]() mutable {
                                  local.local = true;
                                  return measure_plain_copy(local);
                                }},
                               {"handed_on_zmq", [&, handed_on = plain]() mutable {
                                  handed_on.server_copies = false;
                                  return measure_plain_copy(handed_on);
                                }}};
  if (args.servers > 1)  // a model, with the optimiser's state, for the pushes of all workers
    all.push_back({"plain_zmq_with_replicas", [&, replicated = plain]() mutable {
                     replicated.replicated = (args.momentum > 0 ? 2.0 : 1.0) / args.workers;
                     return measure_plain_copy(replicated);
                   }});
  if (!args.only.empty()) std::erase_if(all, [&](const Measured& each) { return args.only != each.name; });
  for (int turn = 0; turn < turns; ++turn)
    for (Measured& each : all) {
      const RoundCost cost = in_a_process(each.measure);
      const auto keep = [&](double RoundCost::*what) {
        if (turn == 0 || cost.*what < each.best.*what) each.best.*what = cost.*what;
      };
      keep(&RoundCost::seconds);
      keep(&RoundCost::median_seconds);
      keep(&RoundCost::cpu_seconds);
    }
  const double megabytes = 2e-6 * static_cast<double>(args.bytes) * args.workers;
  nlohmann::json result = {{"workers", args.workers},
                           {"servers", args.servers},
                           {"model_bytes", args.bytes},
                           {"message_bytes", args.plain_message}};
  for (const Measured& each : all) {
    result[fmt::format("{}_MB_s", each.name)] = megabytes / each.best.seconds;
    result[fmt::format("{}_median_MB_s", each.name)] = megabytes / each.best.median_seconds;
    result[fmt::format("{}_cpu_ms", each.name)] = 1e3 * each.best.cpu_seconds;
    for (const Measured& ours : all) {
      const std::string name = ours.name;
      if (!name.starts_with("push_pull") || std::string(each.name).starts_with("push_pull")) continue;
      result[fmt::format("{}_to_{}", name, each.name)] = each.best.seconds / ours.best.seconds;
      result[fmt::format("{}_to_{}_by_medians", name, each.name)] = each.best.median_seconds / ours.best.median_seconds;
    }
  }
  fmt::print("{}\n", result.dump());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("push+pull of a model by parameter servers, without a model to train");
  app.require_subcommand(1);
  BenchArgs args;
  std::string listen;
  int turns = 5;
  const auto add_common = [&](CLI::App* sub) {
    sub->add_option("--workers", args.workers, "of the cluster");
    sub->add_option("--bytes", args.bytes, "of the model");
    sub->add_option("--momentum", args.momentum, "of the optimiser; 0: it has no state");
    sub->add_option("--rounds", args.rounds, "that count");
  };
  CLI::App* server = app.add_subcommand("server", "one server, until it is ended");
  CLI::App* worker = app.add_subcommand("worker", "one worker: prints its times");
  CLI::App* loopback = app.add_subcommand("loopback", "all on this machine, against a plain ZeroMQ copy");
  for (CLI::App* sub : {server, worker, loopback}) add_common(sub);
  for (CLI::App* sub : {server, worker}) {
    sub->add_option("--servers", args.addresses, "addresses of all, like tcp://10.0.0.1:7000,...")
        ->delimiter(',')
        ->required();
    sub->add_option("--keys", args.keys, "folder of keys of server0, ..., worker0, ...");
  }
  server->add_option("--index", args.server, "of it among the servers");
  worker->add_option("--index", args.worker, "of it among the workers");
  worker->add_option("--pause-ms", args.pause_ms, "between rounds");
  worker->add_option("--per-host", args.per_host, "workers of a host; several push through the first of them")
      ->check(CLI::PositiveNumber);
  for (CLI::App* sub : {worker, loopback}) sub->add_option("--keep", args.keep, "share of a gradient that is pushed");
  loopback->add_option("--servers", args.servers, "how many");
  loopback->add_option("--turns", turns, "of both, the best counts");
  loopback->add_option("--only", args.only, "one of what is measured, for a profiler")
      ->check(CLI::IsMember({"push_pull", "push_pull_by_tcp", "plain_zmq", "plain_local_zmq", "handed_on_zmq",
                             "plain_zmq_with_replicas"}));
  loopback->add_option("--plain-message", args.plain_message, "bytes of a message of the plain copy");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("ps_bench"));  // results are on standard output
  spdlog::set_level(spdlog::level::warn);
  try {
    if (*server) {
      const std::atomic<bool> never = false;
      BenchServer(args, args.addresses.at(static_cast<std::size_t>(args.server))).run(args.addresses, never);
    } else if (*worker) {
      print(work(args, [&] { std::this_thread::sleep_for(std::chrono::milliseconds(args.pause_ms)); }));
    } else {
      compare_on_loopback(args, turns);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "ps_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
