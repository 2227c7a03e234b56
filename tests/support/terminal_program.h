// Runs `trifold` in a terminal of its own (a pty): what it draws is collected, keys can be typed, the window resized,
// and the terminal's settings looked at before and after.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <termios.h>

namespace trifold::test {

class TerminalProgram {
 public:
  struct Args {
    std::vector<std::string> arguments = {};  // after the program's name
    std::filesystem::path directory = {};     // where it runs
    int columns = 80;
    int rows = 24;
    std::vector<std::string> variables = {};  // "NAME=value", beside TERM=xterm-256color and a UTF-8 locale
    int ignored_signal = 0;                   // as nohup leaves SIGHUP; all others are as a shell gives them
  };

  explicit TerminalProgram(const Args& args);
  ~TerminalProgram();  // kills it if it still runs
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  // Reads until the text has been drawn, from `from` on; false: the program ended or the time is over before that.
  bool draws(const std::string& text, std::size_t from = 0, std::chrono::seconds patience = std::chrono::seconds(60));
  // Likewise, until all that was drawn so far has what is looked for.
  bool draws(const std::function<bool(const std::string& output)>& wanted,
             std::chrono::seconds patience = std::chrono::seconds(60));
  // Reads until it has ended: its exit code, or minus the signal's number.
  int end(std::chrono::seconds patience = std::chrono::seconds(60));

  void type(const std::string& keys) const;
  void resize(int columns, int rows) const;
  void send(int signal) const;

  const std::string& output() const { return output_; }  // so far
  termios settings() const;                              // of the terminal
  pid_t process() const { return process_; }

 private:
  bool read_some();
  bool running();

  int master_ = -1;
  int terminal_ = -1;  // kept open, so that it outlives the program
  pid_t process_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::string output_;
};

bool same(const termios& a, const termios& b);

}  // namespace trifold::test
