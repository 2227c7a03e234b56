#include "runtime/config/source_path.h"

namespace trifold {

std::filesystem::path written_path(const JsonNode& text) {
  const std::filesystem::path path = text.text;
  if (path.empty()) fail_at(text, "expected a path, found an empty text");
  if (path.is_absolute() || text.place.line == 0 || !text.place.origin) return path;
  return (std::filesystem::path(*text.place.origin).parent_path() / path).lexically_normal();
}

std::filesystem::path absolute_path(const JsonNode& text) {
  return std::filesystem::absolute(written_path(text)).lexically_normal();
}

}  // namespace trifold
