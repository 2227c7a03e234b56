#include "kernels/backend.h"

#include "kernels/reference/convert.h"

namespace trifold {

Backend& reference_backend() {
  static Backend backend("reference", reference::convert);
  return backend;
}

}  // namespace trifold
