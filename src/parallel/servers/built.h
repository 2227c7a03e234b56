// Whether this build has parameter servers (TRIFOLD_SERVERS): without the libraries that they need it trains all else.
#pragma once

#include <string_view>

namespace trifold {

// Fails where this build has no parameter servers; `what` begins the sentence and names what needs them.
void require_servers(std::string_view what);

}  // namespace trifold
