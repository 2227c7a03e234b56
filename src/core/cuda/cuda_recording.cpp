#include "core/cuda/cuda_recording.h"

namespace trifold::cuda {

CudaRecording::CudaRecording(CudaDevice& device, const std::function<void()>& give) : device_(device) {
  cudaGraph_t captured = nullptr;
  TRIFOLD_CUDA(cudaStreamBeginCapture(device.compute(), cudaStreamCaptureModeThreadLocal));
  try {
    give();
  } catch (...) {
    // The stream must leave capture, or everything after this fails too.
    static_cast<void>(cudaStreamEndCapture(device.compute(), &captured));
    const Graph unfinished(captured);
    throw;
  }
  TRIFOLD_CUDA(cudaStreamEndCapture(device.compute(), &captured));
  const Graph graph(captured);
  cudaGraphExec_t executable = nullptr;
  TRIFOLD_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
  graph_ = GraphExec(executable);
}

void CudaRecording::replay() {
  device_.make_current();
  TRIFOLD_CUDA(cudaGraphLaunch(graph_.get(), device_.compute()));
}

}  // namespace trifold::cuda
