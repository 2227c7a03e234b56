// Runs `trifold` as a user does, with what it prints captured. A program that outlives its time is killed, and one that
// is still running when the object goes is too.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace trifold::test {

struct ProgramResult {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  std::string out;
  std::string err;
};

class RunningProgram {
 public:
  struct Args {
    std::vector<std::string> arguments = {};  // after the program's name
    std::vector<std::string> under = {};      // what starts it, with its arguments: {"mpirun", "-np", "2"}
    std::filesystem::path directory = {};     // where it runs; its output is kept in files there
    std::string label = {};                   // of these files, where several run at a time
  };

  explicit RunningProgram(const Args& args);
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  RunningProgram(RunningProgram&&) = delete;
  RunningProgram& operator=(RunningProgram&&) = delete;
  ~RunningProgram();

  bool running();
  int process() const { return process_; }  // its id
  std::string output() const;               // so far
  std::string errors() const;               // likewise
  void send(int signal) const;
  // Kills it when the time is over: the result then says signal 9.
  ProgramResult wait(std::chrono::seconds timeout = std::chrono::seconds(900));

 private:
  std::filesystem::path out_file_;
  std::filesystem::path err_file_;
  int process_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace trifold::test
