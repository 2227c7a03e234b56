// NVTX ranges of what is given to a GPU, in a domain of their own. Always on: without a tool (Nsight, CUPTI) a range is
// a look at a null pointer.
#include <nvtx3/nvToolsExt.h>

#include "core/cuda/cuda_device.h"

namespace trifold::cuda {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("trifold");
  return made;
}

}  // namespace

void push_nvtx_range(const char* name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop_nvtx_range() noexcept {
  nvtxDomainRangePop(domain());
}

}  // namespace trifold::cuda
