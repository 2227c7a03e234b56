// `trifold`: parses the command line, runs one command, and turns an error into one sentence and an exit code:
// 0 done, 1 the job failed while running, 2 the job or the command line is wrong, 3 a rank was lost.
#include <cstdio>
#include <exception>
#include <memory>
#include <new>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "commands.h"
#include "core/error.h"
#include "core/terminal_color.h"

namespace {

void say_error(const char* sentence) {
  fmt::print(stderr, "{}", trifold::sentence_for_user(sentence, trifold::Tone::error));
}

}  // namespace

int main(int argc, char** argv) {
  // Standard output is for results.
  spdlog::set_default_logger(spdlog::stderr_color_mt(
      "trifold", trifold::colors_standard_error() ? spdlog::color_mode::always : spdlog::color_mode::never));
  const std::unique_ptr<CLI::App> app = trifold::make_command_line();
  try {
    app->parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : 2;
  } catch (const trifold::Error& error) {
    if (*error.what() != '\0') say_error(error.what());  // else the world has told it
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    say_error("out of memory; make train.batch smaller");
    return 1;
  } catch (const std::exception& error) {
    say_error(error.what());
    return 1;
  }
}
