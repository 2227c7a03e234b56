// Stands in for built.cpp in a build without parameter servers.
#include "core/error.h"
#include "parallel/servers/built.h"

namespace trifold {

void require_servers(std::string_view what) {
  fail_input(
      "{} needs parameter servers, which this build of trifold does not have: run tools/setup (it installs ZeroMQ, "
      "zstd and curl) and build again with -DTRIFOLD_SERVERS=ON",
      what);
}

}  // namespace trifold
