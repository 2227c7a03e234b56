// The valid name that a misspelt one most likely stands for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trifold {

// By edit distance (case does not count, a swap of neighbours is one edit); nothing when none is near.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> names);

// "; did you mean 'stride'?", or nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

// "'a', 'b' or 'c'", and "a, b, c".
std::string quoted_alternatives(std::span<const std::string> names);
std::string comma_list(std::span<const std::string> names);

}  // namespace trifold
