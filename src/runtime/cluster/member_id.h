// Names: of members, never used twice, also not by the same process when it joins again; and of hosts.
#pragma once

#include <string>

namespace trifold {

std::string new_member_id(const std::string& role);  // "server-host-1234-19a93f1c0de-1"

// The same for processes that reach each other by loopback, and for no others: machines may be called alike, and a
// machine may have several networks (containers).
std::string name_of_this_host();

// As people may want to read it, "server-host-1234": without what tells it from another process of the same number.
std::string short_name(const std::string& member_id);

}  // namespace trifold
