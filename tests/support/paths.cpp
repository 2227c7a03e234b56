#include "support/paths.h"

namespace trifold::test {

std::filesystem::path source_dir() {
  return TRIFOLD_SOURCE_DIR;
}

std::string program_path() {
  return TRIFOLD_PROGRAM;
}

}  // namespace trifold::test
