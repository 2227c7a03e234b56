// Where this tree and its program are. Only paths.cpp is compiled anew where a clone has another place.
#pragma once

#include <filesystem>
#include <string>

namespace trifold::test {

std::filesystem::path source_dir();
std::string program_path();  // of trifold

}  // namespace trifold::test
