// `trifold train` as seen in a terminal: the live view draws, follows the window, stops at q, and gives the terminal
// back whatever happens; colour and rewriting are for terminals alone.
#include <csignal>
#include <regex>

#include <fmt/format.h>

#include "support/cluster_fixture.h"
#include "support/cluster_processes.h"
#include "support/terminal_program.h"

namespace trifold::test {
namespace {

const std::string kEnterScreen = "\x1b[?1049h";
const std::string kLeaveScreen = "\x1b[?1049l";

// Sequences that choose a colour: 30 to 49 and 90 to 107, alone or after others.
bool has_color(const std::string& output) {
  static const std::regex color("\x1b\\[([0-9]+;)*(3[0-8]|4[0-8]|9[0-7]|10[0-7])(;[0-9]+)*m");
  return std::regex_search(output, color);
}

class Live : public JobFixture {
 protected:
  Live() {
    Json job = small_job();
    job["train"]["epochs"] = 100'000;  // until it is stopped
    job["train"]["checkpoint"] = {{"every_steps", 100}};
    job["train"]["tensorboard"] = {{"histograms", false}};
    write_job(job);
  }
  TerminalProgram::Args args(std::vector<std::string> more = {"--live"},
                             std::vector<std::string> variables = {}) const {
    std::vector<std::string> arguments = {"train", "job.json", "--no-report"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return {.arguments = arguments, .directory = directory(), .variables = std::move(variables)};
  }
  // In a line that changes only what has changed is drawn, unless the window changes.
  static bool shows(TerminalProgram& program, const std::string& text) {
    for (int columns = 100; columns < 160; ++columns) {
      program.resize(columns, 40);
      if (program.draws(text, 0, std::chrono::seconds(1))) return true;
    }
    return false;
  }
  // On the ordinary screen, after the view.
  static std::string after_view(const std::string& output) {
    const std::size_t at = output.rfind(kLeaveScreen);
    return at == std::string::npos ? "" : output.substr(at);
  }
};

TEST_F(Live, DrawsFollowsTheWindowAndStopsAtQ) {
  TerminalProgram program(args());
  const termios before = program.settings();
  ASSERT_TRUE(program.draws("images/s")) << program.output();
  EXPECT_TRUE(program.draws(kEnterScreen));
  EXPECT_TRUE(program.draws("planned"));
  EXPECT_TRUE(program.draws("checkpoint of step"));
  EXPECT_TRUE(program.draws("▁"));
  EXPECT_TRUE(program.draws(has_color));           // a loss or an accuracy that is the best so far, whenever that is
  EXPECT_FALSE(same(before, program.settings()));  // keys are not echoed now
  EXPECT_EQ(program.output().find(" input  idle"), std::string::npos);
  const std::size_t narrow = program.output().size();
  program.resize(120, 40);
  EXPECT_TRUE(program.draws(" input  idle", narrow));  // a column for which 80 are too few
  program.type("q");
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(same(before, program.settings()));
  EXPECT_TRUE(says(after_view(program.output()), "stopped by interrupt"));
  EXPECT_TRUE(says(after_view(program.output()), "go on with --resume"));
  EXPECT_TRUE(says(after_view(program.output()), "epoch   1/100000  loss"));  // what was said meanwhile
  ASSERT_FALSE(checkpoints().empty());
  EXPECT_EQ(metrics().back()["step"].get<int>(), std::stoi(checkpoints().back().stem().string().substr(5)));
}

TEST_F(Live, SeveralRanksAreShownEachOnItsLine) {
  TerminalProgram program(args({"--live", "--plan", "pp=2,micro_batches=4"}));
  ASSERT_TRUE(program.draws("images/s")) << program.output();
  EXPECT_TRUE(program.draws("pp=2, 1f1b, 4 micro-batches"));
  EXPECT_TRUE(program.draws("pp 0"));
  EXPECT_TRUE(program.draws("pp 1"));
  program.type("q");
  EXPECT_EQ(program.end(), 0);
}

// Its workers are other processes: what the manager hears of them is shown, and what they say, too.
TEST_F(Live, AClusterIsShownWithItsShards) {
  TerminalProgram program(
      args({"--live", "--set", "plan.sync.type=ps", "--servers", "2", "--workers", "2", "--set", "train.batch=16"}));
  program.resize(110, 40);
  ASSERT_TRUE(program.draws("images/s")) << program.output();
  EXPECT_TRUE(program.draws("sync: 2 servers, 2 workers"));
  EXPECT_TRUE(shows(program, "every slice has its replica"));
  EXPECT_TRUE(program.draws("server-"));
  EXPECT_TRUE(program.draws("receives"));
  EXPECT_TRUE(program.draws("worker-"));
  EXPECT_TRUE(program.draws("B/s"));
  const std::vector<int> workers = members_of(program.process(), "worker");
  ASSERT_EQ(workers.size(), 2U);
  ::kill(workers[0], SIGKILL);
  EXPECT_TRUE(program.draws("was killed by signal 9"));
  EXPECT_TRUE(shows(program, "1 worker; "));
  program.type("q");
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(says(after_view(program.output()), "stopped by interrupt"));
  EXPECT_TRUE(says(after_view(program.output()), "was killed by signal 9"));
  EXPECT_FALSE(checkpoints().empty());
}

TEST_F(Live, AManagerShowsWhomItWaitsForAndWhoCame) {
  const std::string address = fmt::format("tcp://127.0.0.1:{}", free_port());
  TerminalProgram manager(
      {.arguments = {"manager", "job.json", "--set", R"(plan.sync={"type": "ps", "servers": 1, "workers": 1})",
                     "--listen", address, "--live"},
       .directory = directory(),
       .columns = 110,
       .rows = 40});
  ASSERT_TRUE(manager.draws("waiting for members")) << manager.output();
  EXPECT_TRUE(manager.draws("nobody"));
  RunningProgram server({.arguments = {"server", "--manager", address}, .directory = directory(), .label = "server"});
  RunningProgram worker({.arguments = {"worker", "--manager", address}, .directory = directory(), .label = "worker"});
  EXPECT_TRUE(manager.draws("images/s"));
  EXPECT_TRUE(shows(manager, "one server has no replica"));
  EXPECT_TRUE(manager.draws("worker-"));
  manager.type("q");
  EXPECT_EQ(manager.end(), 0);
  EXPECT_TRUE(says(after_view(manager.output()), "stopped by interrupt"));
  EXPECT_EQ(server.wait().exit_code, 0);
  EXPECT_EQ(worker.wait().exit_code, 0);
  EXPECT_EQ(trifold({"manager", "job.json", "--live", "--quiet"}).exit_code, 2);
}

TEST_F(Live, NoColorMeansNoColor) {
  TerminalProgram program(args({"--live"}, {"NO_COLOR=1"}));
  ASSERT_TRUE(program.draws("checkpoint of step")) << program.output();
  program.type("q");
  EXPECT_EQ(program.end(), 0);
  EXPECT_FALSE(has_color(program.output()));
}

TEST_F(Live, WithoutUtf8ItIsAscii) {
  TerminalProgram program(args({"--live"}, {"LC_ALL=C"}));
  ASSERT_TRUE(program.draws("checkpoint of step")) << program.output();
  program.type("q");
  EXPECT_EQ(program.end(), 0);
  for (const char byte : program.output()) ASSERT_GE(byte, 0);
}

TEST_F(Live, SignalsStopItAsTheyStopOthers) {
  for (const int signal : {SIGINT, SIGTERM}) {
    TerminalProgram program(args({"--live", "--force"}));
    const termios before = program.settings();
    ASSERT_TRUE(program.draws("images/s")) << program.output();
    if (signal == SIGINT)
      program.type("\x03");  // Ctrl-C
    else
      program.send(signal);
    EXPECT_EQ(program.end(), 0);
    EXPECT_TRUE(same(before, program.settings()));
    EXPECT_TRUE(says(after_view(program.output()), "stopped by interrupt"));
    EXPECT_FALSE(checkpoints().empty());
  }
}

TEST_F(Live, ACrashGivesTheTerminalBack) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGQUIT, SIGHUP}) {
    TerminalProgram program(args({"--live", "--force"}));
    const termios before = program.settings();
    ASSERT_TRUE(program.draws("images/s")) << program.output();
    program.send(signal);
    EXPECT_EQ(program.end(), -signal);
    EXPECT_TRUE(same(before, program.settings())) << signal;
    EXPECT_TRUE(says(after_view(program.output()), kLeaveScreen)) << signal;
  }
}

TEST_F(Live, AnIgnoredSignalStaysIgnored) {
  TerminalProgram::Args ignoring = args();
  ignoring.ignored_signal = SIGHUP;
  TerminalProgram program(ignoring);
  ASSERT_TRUE(program.draws("images/s")) << program.output();
  program.send(SIGHUP);
  const std::size_t before = program.output().size();
  EXPECT_TRUE(program.draws("\x1b[", before)) << "it goes on drawing";
  EXPECT_EQ(program.output().find(kLeaveScreen), std::string::npos);
  program.type("q");
  EXPECT_EQ(program.end(), 0);
}

TEST_F(Live, ASecondInterruptEndsItAtOnceAndTidily) {
  TerminalProgram program(args());
  const termios before = program.settings();
  ASSERT_TRUE(program.draws("images/s")) << program.output();
  program.type("q");
  program.send(SIGINT);
  program.send(SIGINT);
  const int end = program.end();
  EXPECT_TRUE(end == -SIGINT || end == 0) << end;  // it may have been done in time
  EXPECT_TRUE(same(before, program.settings()));
  EXPECT_TRUE(says(program.output(), kLeaveScreen));
}

TEST_F(Live, AnErrorIsSaidOnTheOrdinaryScreen) {
  TerminalProgram program(args({"--live", "--set", "train.optimizer={\"type\": \"sgd\", \"lr\": 1e30}"}));
  const termios before = program.settings();
  EXPECT_EQ(program.end(), 1);
  EXPECT_TRUE(same(before, program.settings()));
  EXPECT_TRUE(says(after_view(program.output()), "the loss became"));
}

TEST_F(Live, WithoutATerminalThereAreLines) {
  const ProgramResult result = trifold({"train", "job.json", "--no-report", "--live", "--set", "train.epochs=2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(says(result.err, "trifold: no --live here: standard output is no terminal; showing lines instead\n"));
  EXPECT_TRUE(says(result.err, "epoch   2/2  loss"));
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  EXPECT_TRUE(says(result.out, "done: 2 epochs"));
}

TEST_F(Live, ATerminalThatCannotBeDrawnOnGetsLines) {
  TerminalProgram program(args({"--live", "--set", "train.epochs=2"}, {"TERM=dumb"}));
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(says(program.output(), "no --live here: TERM says"));
  EXPECT_EQ(program.output().find('\x1b'), std::string::npos);
}

TEST_F(Live, ATerminalThatIsNotKnownGetsLines) {
  TerminalProgram program(args({"--live", "--set", "train.epochs=2"}, {"TERM=abacus"}));
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(says(program.output(), "terminfo does not know how to draw on TERM=abacus"));
  EXPECT_TRUE(says(program.output(), "epoch   2/2  loss"));
}

TEST_F(Live, ASupervisedRunGetsLines) {
  TerminalProgram program(args({"--live", "--restarts", "1", "--set", "train.epochs=2"}));
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(says(program.output(), "no --live here: --restarts and --processes train in other processes"));
  EXPECT_EQ(program.output().find(kEnterScreen), std::string::npos);
}

TEST_F(Live, ExcludesWhatContradictsIt) {
  EXPECT_EQ(trifold({"train", "job.json", "--live", "--quiet"}).exit_code, 2);
  EXPECT_EQ(trifold({"train", "job.json", "--live", "--json"}).exit_code, 2);
}

TEST_F(Live, TheOrdinaryLineIsRewrittenInPlaceWithItsEta) {
  TerminalProgram program(args({"--set", "train.epochs=30"}));
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(says(program.output(), "\r\x1b[Kepoch 1/30"));
  EXPECT_TRUE(says(program.output(), "ETA "));
  EXPECT_TRUE(says(program.output(), "\x1b[32maccuracy "));  // the best so far
  EXPECT_EQ(program.output().find(kEnterScreen), std::string::npos);
}

TEST_F(Live, TheOrdinaryLineHasNoColorWhereNoneIsWanted) {
  TerminalProgram program(args({"--set", "train.epochs=30"}, {"NO_COLOR=1"}));
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(says(program.output(), "\r\x1b[Kepoch 1/30"));
  EXPECT_FALSE(has_color(program.output()));
}

TEST_F(Live, ErrorsAreRedOnATerminalOnly) {
  TerminalProgram program({.arguments = {"train", "missing.json"}, .directory = directory()});
  EXPECT_EQ(program.end(), 2);
  EXPECT_TRUE(says(program.output(), "\x1b[31mtrifold:\x1b[0m "));
  EXPECT_TRUE(says(trifold({"train", "missing.json"}).err, "trifold: "));
}

}  // namespace
}  // namespace trifold::test
