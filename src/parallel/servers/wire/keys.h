// Key pairs of the members of a cluster, in a folder: "NAME.secret", which only its owner may read, and "trusted", the
// public keys of all with their names. A member needs its own secret and the list.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "parallel/servers/wire/mailbox.h"

namespace trifold {

KeyPair make_key_pair();

// Makes the folder where there is none, and adds to the list where there is one. Fails, and changes nothing, if one of
// the members has a key there.
void make_keys(const std::filesystem::path& folder, const std::vector<std::string>& members);

// Fails with what to do about it if a key is missing, is none, is not trusted or can be read by others.
Credentials load_credentials(const std::filesystem::path& folder, const std::string& member);

// Another member's, of the list. Fails where it has none.
std::string load_public_key(const std::filesystem::path& folder, const std::string& member);

}  // namespace trifold
