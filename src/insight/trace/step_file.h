// The steps of a process's ranks as they were noted, in a file that is gone when it is closed; and those of another
// process, as they come from its file. Both are read step by step, so a long run takes no more memory than a short one.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "insight/trace/trace_writer.h"
#include "parallel/communicator/communicator.h"

namespace trifold {

class StepFile {
 public:
  StepFile();  // in the folder for temporary files

  void write(const TraceStep& step, std::span<const SpanLog> ranks);
  void rewind();                                // to read what was written
  std::size_t read(std::span<std::byte> data);  // fewer bytes only at the end

  // All of it, to another member of the group, who reads it as it comes.
  void send(Communicator& group, int to);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void put(std::span<const std::byte> data);

  std::unique_ptr<std::FILE, Close> file_;
};

struct NotedStep {
  TraceStep step = {};
  std::vector<std::vector<Span>> ranks = {};
};

class StepReader {
 public:
  explicit StepReader(StepFile& file) : file_(&file) { file.rewind(); }
  StepReader(Communicator& group, int from) : group_(&group), from_(from) {}

  bool next(NotedStep& step);  // false: there is none

 private:
  bool read(std::span<std::byte> data);
  bool receive();

  StepFile* file_ = nullptr;
  Communicator* group_ = nullptr;
  int from_ = 0;
  std::vector<std::byte> received_;
  std::size_t used_ = 0;
};

}  // namespace trifold
