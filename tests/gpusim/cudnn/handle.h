// The cuDNN handle, and how calls are refused: with the status the real library returns, the text that
// cudnnGetLastErrorString gives, and a report. Handles are never freed, so the use of a destroyed one is seen.
#pragma once

#include <cstdint>
#include <string>

#include <cudnn.h>

#include "engine/library.h"

struct cudnnContext {
  bool alive = true;
  int device = 0;  // current when it was made; it serves no other
  gpusim::StreamHandle stream = nullptr;
};

namespace gpusim {

cudnnStatus_t refuse(cudnnStatus_t status, const std::string& text);
cudnnStatus_t not_simulated(const std::string& text);  // what the real library has and the simulator has not

// CUDNN_STATUS_SUCCESS when the handle is alive and belongs to the current device.
cudnnStatus_t check_handle(const cudnnContext* handle, const char* function);

// Enqueues on the handle's stream, whose device has to be the handle's.
cudnnStatus_t enqueue_on(const cudnnContext& handle, Work work);

}  // namespace gpusim
