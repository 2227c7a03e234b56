// What lies in a stretch of memory, for the verifier: runs of bytes, each with the write that made it. A map of
// intervals, so that its cost depends on the number of buffers and not on their size.
#pragma once

#include <cstddef>
#include <map>

namespace trifold {

class MemoryContents {
 public:
  static constexpr int kUnwritten = -1;

  void write(std::size_t begin, std::size_t end, int by) {
    if (begin >= end) return;
    split(begin);
    split(end);
    runs_.erase(runs_.lower_bound(begin), runs_.lower_bound(end));
    runs_[begin] = {end, by};
  }

  void clear() { runs_.clear(); }

  // Calls look(begin, end, by) for every run between the two, kUnwritten for what nobody wrote.
  template <class Look>
  void visit(std::size_t begin, std::size_t end, Look look) const {
    auto run = runs_.upper_bound(begin);
    if (run != runs_.begin()) --run;
    while (begin < end) {
      while (run != runs_.end() && run->second.end <= begin) ++run;
      if (run == runs_.end() || run->first >= end) return look(begin, end, kUnwritten);
      if (begin < run->first) look(begin, run->first, kUnwritten);
      const std::size_t from = begin < run->first ? run->first : begin;
      begin = run->second.end < end ? run->second.end : end;
      look(from, begin, run->second.by);
    }
  }

 private:
  struct Run {
    std::size_t end = 0;
    int by = kUnwritten;
  };

  // A run that reaches over `at` becomes two.
  void split(std::size_t at) {
    auto run = runs_.lower_bound(at);
    if (run == runs_.begin()) return;
    --run;
    if (run->second.end <= at) return;
    runs_[at] = run->second;
    run->second.end = at;
  }

  std::map<std::size_t, Run> runs_;  // by begin
};

}  // namespace trifold
