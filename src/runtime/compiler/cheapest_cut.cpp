#include "runtime/compiler/cheapest_cut.h"

#include <algorithm>
#include <limits>

namespace trifold {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 4;

// The largest flow is as large as the cheapest cut (Ford and Fulkerson), found along shortest ways (Edmonds and Karp).
// A vertex is a pipe from its entry to its exit that takes as much as the vertex costs.
class Flow {
 public:
  explicit Flow(const CutProblem& problem)
      : vertices_(static_cast<int>(problem.costs.size())), pipes_of_(2 * problem.costs.size() + 2) {
    for (int v = 0; v < vertices_; ++v) add_pipe(entry(v), exit(v), problem.costs[static_cast<std::size_t>(v)]);
    for (const auto& [from, to] : problem.edges) add_pipe(exit(from), entry(to), kNoLimit);
    for (const int v : problem.sources) add_pipe(source(), entry(v), kNoLimit);
    for (const int v : problem.sinks) add_pipe(exit(v), sink(), kNoLimit);
  }

  void fill() {
    while (find_way()) {
      std::int64_t most = kNoLimit;
      for (int at = sink(); at != source(); at = from(way_[index(at)])) most = std::min(most, room(way_[index(at)]));
      for (int at = sink(); at != source(); at = from(way_[index(at)])) {
        pipes_[index(way_[index(at)])].room -= most;
        pipes_[index(way_[index(at)] ^ 1)].room += most;
      }
    }
  }

  // Full pipes of vertices whose exits still have room towards the sinks, and whose entries have not.
  std::vector<bool> full_vertices() const {
    std::vector<bool> reaches(pipes_of_.size(), false);
    std::vector<int> open = {sink()};
    reaches[index(sink())] = true;
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const int pipe : pipes_of_[index(at)]) {
        const int before = pipes_[index(pipe)].to;
        if (reaches[index(before)] || room(pipe ^ 1) == 0) continue;
        reaches[index(before)] = true;
        open.push_back(before);
      }
    }
    std::vector<bool> full;
    for (int v = 0; v < vertices_; ++v) full.push_back(reaches[index(exit(v))] && !reaches[index(entry(v))]);
    return full;
  }

 private:
  struct Pipe {
    int to = 0;
    std::int64_t room = 0;
  };
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  static int entry(int vertex) { return 2 * vertex; }
  static int exit(int vertex) { return 2 * vertex + 1; }
  int source() const { return 2 * vertices_; }
  int sink() const { return 2 * vertices_ + 1; }
  std::int64_t room(int pipe) const { return pipes_[index(pipe)].room; }
  int from(int pipe) const { return pipes_[index(pipe ^ 1)].to; }

  // Pipe 2n + 1 is pipe 2n backwards: what flows one way may be taken back.
  void add_pipe(int from, int to, std::int64_t room) {
    pipes_of_[index(from)].push_back(static_cast<int>(pipes_.size()));
    pipes_.push_back({to, room});
    pipes_of_[index(to)].push_back(static_cast<int>(pipes_.size()));
    pipes_.push_back({from, 0});
  }

  // To every place, the pipe by which the shortest way with room arrives; whether one arrives at the sink.
  bool find_way() {
    way_.assign(pipes_of_.size(), -1);
    std::vector<int> open = {source()};
    for (std::size_t next = 0; next < open.size() && way_[index(sink())] < 0; ++next)
      for (const int pipe : pipes_of_[index(open[next])]) {
        const int to = pipes_[index(pipe)].to;
        if (room(pipe) == 0 || to == source() || way_[index(to)] >= 0) continue;
        way_[index(to)] = pipe;
        open.push_back(to);
      }
    return way_[index(sink())] >= 0;
  }

  int vertices_;
  std::vector<Pipe> pipes_;
  std::vector<std::vector<int>> pipes_of_;  // by where they begin
  std::vector<int> way_;
};

}  // namespace

std::vector<bool> cheapest_cut(const CutProblem& problem) {
  Flow flow(problem);
  flow.fill();
  return flow.full_vertices();
}

}  // namespace trifold
