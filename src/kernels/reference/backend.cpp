#include "kernels/backend.h"

namespace trifold {

Backend& reference_backend() {
  static Backend backend("reference");
  return backend;
}

}  // namespace trifold
