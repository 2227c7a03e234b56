#include "core/error.h"

#include <string_view>

namespace trifold {

void fail_check(const char* expression, const char* file, int line, const std::string& message) {
  std::string_view path = file;
  if (auto at = path.rfind("/src/"); at != std::string_view::npos) path.remove_prefix(at + 1);
  throw Error(Fault::runtime,
              fmt::format("internal error: {} ({} is false at {}:{})", message, expression, path, line));
}

}  // namespace trifold
