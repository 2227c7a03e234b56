#include "parallel/mesh.h"

#include "core/error.h"

namespace trifold {

std::string to_string(const Mesh& mesh) {
  std::string text;
  const auto add = [&](const char* name, int size) {
    if (size > 1) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, size);
  };
  add("dp", mesh.data);
  add("pp", mesh.pipeline);
  add("tp", mesh.tensor);
  return text.empty() ? "single" : text;
}

MeshPlace place_of(const Mesh& mesh, int rank) {
  TRIFOLD_CHECK(rank >= 0 && rank < mesh.size(), "rank {} of {}", rank, mesh.size());
  return {.data = rank / (mesh.tensor * mesh.pipeline),
          .pipeline = rank / mesh.tensor % mesh.pipeline,
          .tensor = rank % mesh.tensor};
}

int rank_of(const Mesh& mesh, const MeshPlace& place) {
  return (place.data * mesh.pipeline + place.pipeline) * mesh.tensor + place.tensor;
}

}  // namespace trifold
