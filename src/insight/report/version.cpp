#include "insight/report/version.h"

namespace trifold {

const char* version() {
  return TRIFOLD_VERSION;
}

}  // namespace trifold
