#include "parallel/world.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include "core/terminal_color.h"
#include "parallel/communicator/local_communicator.h"
#include "parallel/communicator/mpi/mpi.h"
#include "parallel/communicator/mpi/mpi_name_server.h"
#include "parallel/processes/watch.h"

namespace trifold {
namespace {

constexpr std::chrono::seconds kDefaultPatience = std::chrono::minutes(5);

// TRIFOLD_PATIENCE: seconds that a rank waits for others before the job ends with a report.
std::chrono::milliseconds world_patience() {
  const char* text = std::getenv("TRIFOLD_PATIENCE");
  if (text == nullptr) return kDefaultPatience;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds > 0))
    fail_input("TRIFOLD_PATIENCE is '{}'; expected a number of seconds", text);
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void tell_user(const std::string& reason) {
  fmt::print(stderr, "{}", sentence_for_user(reason, Tone::error));
  std::fflush(stderr);
}

std::string make_secret() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::string name_of_this_machine() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

struct World::Impl {
  Impl(const Launch& given, bool check) : launch(given), check_calls(check), patience(world_patience()) {
    meet();
    mpi->board().set_watch(watch.get(), patience);
    watch->set_status([this] { return mpi->statuses(); });
    place({.processes = launch.size});
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (watch) watch->set_status({});
    if (mpi) mpi->board().set_watch(nullptr, kDefaultPatience);
  }

  // A process's first rank speaks for it among processes.
  void place(const RankPlacement& given) {
    if (everyone && given == placement) return;
    placement = given;
    watch->set_placement(placement);
    if (everyone) everyone->barrier();  // all have the placement before anybody is reported by it
    Mpi::GroupArgs args{.name = "world", .ranks = {}, .processes = {}, .check_calls = check_calls};
    for (int process = 0; process < placement.processes; ++process) {
      args.ranks.push_back(placement.first_of(process));
      args.processes.push_back(process);
    }
    everyone = std::move(mpi->make_group(args).front());
  }

  std::vector<std::unique_ptr<Communicator>> make_group(Axis axis, const std::vector<int>& ranks) const {
    std::vector<int> processes;
    processes.reserve(ranks.size());
    for (const int rank : ranks) processes.push_back(placement.process_of(rank));
    if (std::ranges::find(processes, launch.rank) == processes.end()) return {};
    if (processes.front() == processes.back())
      return make_local_group(
          {.size = static_cast<int>(ranks.size()), .axis = name_of(axis), .ranks = ranks, .board = &mpi->board()});
    return mpi->make_group({.name = fmt::format("{} {}", name_of(axis), fmt::join(ranks, " ")),
                            .ranks = ranks,
                            .processes = processes,
                            .check_calls = check_calls});
  }

  void meet() {
    try {
      if (launch.by == Launch::By::mpi)
        meet_by_mpi();
      else
        meet_by_rendezvous();
    } catch (const Error& error) {
      if (!watch) throw;
      watch->fail(error.fault(), error.what());
      throw Error(error.fault(), "");  // it has been told
    }
  }

  // MPI knows the others and says where process 0's watch listens.
  void meet_by_mpi() {
    mpi = start_mpi();
    if (mpi->size() != launch.size || mpi->rank() != launch.rank)
      fail_input(
          "{} says this is process {} of {}, but MPI found itself to be {} of {}: it was started by another MPI than "
          "the one trifold was built with",
          launch.starter, launch.rank, launch.size, mpi->rank(), mpi->size());
    const bool one_machine = mpi->processes_here() == mpi->size();
    std::optional<LineListener> listener;
    std::string address;
    if (launch.rank == 0) {
      listener.emplace(LineListener::Args{.port = 0, .this_machine_only = one_machine});
      address =
          fmt::format("{} {} {}", one_machine ? "127.0.0.1" : name_of_this_machine(), listener->port(), make_secret());
    }
    address = mpi->from_first(address);
    const std::size_t first = address.find(' ');
    const std::size_t second = address.find(' ', first + 1);
    const std::string secret = address.substr(second + 1);
    watch = make_watch(launch.rank == 0 ? meet_others(*listener, launch.size, secret)
                                        : meet_first(address.substr(0, first), std::stoi(address.substr(first + 1)),
                                                     launch.rank, secret));
  }

  // Process 0 waits at the address that all were given, and brings them into one MPI world.
  void meet_by_rendezvous() {
    std::signal(SIGPIPE, SIG_IGN);  // Open MPI may write to processes that have gone
    const std::string secret = fmt::format("trifold {} {}", launch.port, launch.size);
    if (launch.rank == 0) {
      LineListener listener(
          {.port = launch.port, .this_machine_only = launch.host == "127.0.0.1" || launch.host == "localhost"});
      watch = make_watch(meet_others(listener, launch.size, secret));
      name_server = std::make_unique<MpiNameServer>();
      watch->publish("name server", name_server->address());
      use_name_server(name_server->address());
    } else {
      watch = make_watch(meet_first(launch.host, launch.port, launch.rank, secret));
      use_name_server(watch->look_up("name server", std::chrono::seconds(60)));
    }
    mpi = start_mpi();
    mpi->join(*watch, launch.rank, launch.size);
  }

  std::unique_ptr<Watch> make_watch(std::vector<LineSocket> connections) const {
    return std::make_unique<Watch>(Watch::Args{
        .process = launch.rank, .processes = launch.size, .connections = std::move(connections), .say = tell_user});
  }

  Launch launch;
  bool check_calls;
  std::chrono::milliseconds patience;
  RankPlacement placement;
  std::unique_ptr<MpiNameServer> name_server;
  std::unique_ptr<Watch> watch;
  std::unique_ptr<Mpi> mpi;
  std::unique_ptr<Communicator> everyone;
};

World::World(const Launch& launch, bool check_calls) : impl_(std::make_unique<Impl>(launch, check_calls)) {}
World::~World() = default;

int World::rank() const {
  return impl_->launch.rank;
}
int World::size() const {
  return impl_->launch.size;
}
int World::processes_here() const {
  return impl_->mpi->processes_here();
}
int World::rank_here() const {
  std::array<char, 256> name = {};
  name_of_this_machine().copy(name.data(), name.size() - 1);
  const std::vector<std::array<char, 256>> names = gather(name);
  return static_cast<int>(std::count(names.begin(), names.begin() + rank(), name));
}
const std::string& World::starter() const {
  return impl_->launch.starter;
}
Communicator& World::everyone() const {
  return *impl_->everyone;
}

std::vector<std::unique_ptr<RankGroups>> World::make_ranks(const Mesh& mesh) const {
  impl_->place(place_ranks(mesh, size(), starter()));
  everyone().barrier();  // a wait that ends when a process fails, unlike those in which groups are made
  const RankPlacement& placement = impl_->placement;
  return make_rank_groups(mesh, placement.first_of(rank()), placement.ranks_each,
                          [&](Axis axis, const std::vector<int>& ranks) { return impl_->make_group(axis, ranks); });
}

std::string World::from_first(std::string text) const {
  text.resize(from_first(text.size()));
  everyone().wait(everyone().broadcast(std::as_writable_bytes(std::span(text)), 0));
  return text;
}

std::vector<std::string> World::gather_texts(const std::string& mine) const {
  const std::vector<std::size_t> sizes = gather(mine.size());
  std::string padded = mine;
  padded.resize(std::max<std::size_t>(1, *std::ranges::max_element(sizes)));
  const std::vector<char> all = gather_all<char>(padded);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < sizes.size(); ++i) texts.emplace_back(all.data() + i * padded.size(), sizes[i]);
  return texts;
}

void World::at_step(std::int64_t step) {
  impl_->watch->at_step(step);
}

void World::run(const std::function<void()>& job) {
  Watch& watch = *impl_->watch;
  const auto fail = [&](Fault fault, const char* why) {
    const std::string mine = name_of_process(impl_->placement, rank());
    watch.fail(fault, fault == Fault::input ? (first() ? std::string(why) : fmt::format("{}: {}", mine, why))
                                            : fmt::format("{} failed after step {}: {}", mine, watch.step(), why));
    throw Error(fault, "");
  };
  try {
    job();
    everyone().barrier();
    watch.leave();
    // In a world that processes joined one by one MPI_Finalize hangs now and then (Open MPI 4.1): the processes end
    // without it, process 0, whose name server the others need, last.
    if (impl_->launch.by == Launch::By::mpi) impl_->mpi->finalize();
    if (impl_->name_server) watch.await_others(std::chrono::seconds(10));
  } catch (const Error& error) {
    fail(error.fault(), error.what());
  } catch (const std::bad_alloc&) {
    fail(Fault::runtime, "out of memory; make train.batch smaller");
  } catch (const std::exception& error) {
    fail(Fault::runtime, error.what());
  }
}

std::unique_ptr<World> join_world() {
  const Launch launch = find_launch([](const char* name) -> const char* { return std::getenv(name); });
  if (launch.by == Launch::By::alone) return nullptr;
  return std::make_unique<World>(launch);
}

}  // namespace trifold
