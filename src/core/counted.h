// "1 server", "2 servers": numbers of things in sentences.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace trifold {

std::string counted(std::integral auto count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace trifold
