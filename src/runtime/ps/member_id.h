// Names of members: never used twice, also not by the same process when it joins again.
#pragma once

#include <string>

namespace trifold {

std::string new_member_id(const std::string& role);  // "server-host-1234-1"

}  // namespace trifold
