// A catalogue of programming errors, one a function, run by name: gpusim_planted_bugs <name>. planted_bugs_test.cpp
// says what the simulator has to report of each. "list" prints the names. Lines that a report must name are marked BUG.
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include <cuda_runtime.h>

namespace {

constexpr int kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);
constexpr int kThreads = 128;
constexpr int kBlocks = 8;  // 1024 threads, more than kCount

__global__ void set(float* x, int n, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
__global__ void add(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
__global__ void write_past_the_end(float* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;  // BUG write_past_the_end
}
__global__ void read_past_the_end(float* y, const float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) y[i] = x[i + 1];  // BUG read_past_the_end
}
__global__ void read_before_the_beginning(float* y, const float* x) {
  const int i = threadIdx.x;
  y[i] = x[i - 1];  // BUG read_before_the_beginning
}
__global__ void shared_past_the_end(float* x, int offset) {
  __shared__ float staged[32];
  staged[threadIdx.x + offset] = 1.0f;  // BUG shared_past_the_end
  __syncthreads();
  x[threadIdx.x] = staged[threadIdx.x];
}
__global__ void local_past_the_end(float* x, int offset) {
  float kept[8];
  for (int i = 0; i < 8; ++i) kept[i] = x[i];
  x[threadIdx.x] = kept[offset];  // BUG local_past_the_end
}
__global__ void misaligned_vector(float* x) {
  *reinterpret_cast<float4*>(x + 1) = make_float4(1, 2, 3, 4);  // BUG misaligned_vector
}
__global__ void uninitialised_shared(float* x) {
  __shared__ float staged[64];
  if (threadIdx.x < 32) staged[threadIdx.x] = 1.0f;
  __syncthreads();
  x[threadIdx.x] = staged[threadIdx.x];  // BUG uninitialised_shared
}
__global__ void shared_race(float* x) {
  __shared__ float staged[128];
  staged[threadIdx.x] = 0.0f;
  __syncthreads();
  staged[threadIdx.x] = static_cast<float>(threadIdx.x);
  x[threadIdx.x] = staged[127 - threadIdx.x];  // no __syncthreads before
}
__global__ void block_race(float* x) {
  if (threadIdx.x == 0) x[0] += 1.0f;  // BUG block_race: every block
}
__global__ void divergent_barrier(float* x) {
  if (threadIdx.x % 2 == 0) __syncthreads();  // BUG divergent_barrier
  x[threadIdx.x] = 1.0f;
  __syncthreads();
}
// All blocks of the grid meet; in a launch that is not cooperative they never do.
template <bool fenced = true>
__device__ void grid_barrier(float* memory) {
  auto* arrived = reinterpret_cast<unsigned*>(memory);
  __syncthreads();
  if (threadIdx.x == 0) {
    if constexpr (fenced) __threadfence();
    atomicAdd(arrived, 1u);
    while (*static_cast<volatile unsigned*>(arrived) < gridDim.x) continue;  // BUG grid_barrier
    if constexpr (fenced) __threadfence();
  }
  __syncthreads();
}
__global__ void meet(float* arrived) {
  grid_barrier(arrived);
}
__global__ void grid_barrier_without_fence(float* x, float* arrived) {
  if (threadIdx.x == 0) x[blockIdx.x] = 1.0f;
  grid_barrier<false>(arrived);
  if (threadIdx.x == 0) x[blockIdx.x + 32] = x[(blockIdx.x + 1) % gridDim.x];  // BUG grid_barrier_without_fence
}
__global__ void grid_barrier_that_a_block_skips(float* arrived) {
  if (blockIdx.x == 3) return;
  grid_barrier(arrived);
}
__global__ void much_dynamic_shared(float* x) {
  extern __shared__ float staged[];
  staged[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = staged[0];
}

// What most bugs need. The arrays are filled and complete.
struct Setting {
  float* x = nullptr;
  float* y = nullptr;
  float* pinned = nullptr;
  cudaStream_t one = nullptr, two = nullptr;
  cudaEvent_t event = nullptr;
  Setting() {
    cudaMalloc(&x, kBytes);
    cudaMalloc(&y, kBytes);
    cudaMallocHost(&pinned, kBytes);
    std::memset(pinned, 0, kBytes);
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    cudaEventCreate(&event);
    cudaMemset(x, 0, kBytes);
    cudaMemset(y, 0, kBytes);
    cudaDeviceSynchronize();
  }
};

using Bug = std::function<void(Setting&)>;

void clean(Setting& s) {
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 3.0f);
  cudaEventRecord(s.event, s.one);
  cudaStreamWaitEvent(s.two, s.event);
  add<<<kBlocks, kThreads, 0, s.two>>>(s.y, s.x, kCount);
  cudaMemcpyAsync(s.pinned, s.y, kBytes, cudaMemcpyDeviceToHost, s.two);
  cudaStreamSynchronize(s.two);
  if (s.pinned[kCount - 1] != 3.0f) std::printf("wrong result\n");
  cudaFree(s.x);
  cudaFree(s.y);
  cudaFreeHost(s.pinned);
  cudaStreamDestroy(s.one);
  cudaStreamDestroy(s.two);
  cudaEventDestroy(s.event);
}

void launch_after_free(Setting& s) {
  cudaFree(s.x);
  set<<<1, 32>>>(s.x, 32, 1.0f);
}
void freed_in_stream_order_and_used(Setting& s) {
  float* z = nullptr;
  cudaMallocAsync(&z, kBytes, s.one);
  set<<<kBlocks, kThreads, 0, s.one>>>(z, kCount, 1.0f);
  cudaFreeAsync(z, s.one);
  set<<<kBlocks, kThreads, 0, s.one>>>(z, kCount, 2.0f);
}
void freed_while_another_stream_uses_it(Setting& s) {
  float* z = nullptr;
  cudaMalloc(&z, kBytes);
  set<<<kBlocks, kThreads, 0, s.one>>>(z, kCount, 2.0f);
  cudaFreeAsync(z, s.two);
}
void freed_without_waiting(Setting& s) {  // with GPUSIM_STRICT=1
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 2.0f);
  cudaFree(s.x);
}
void uninitialised_global(Setting& s) {
  float* z = nullptr;
  cudaMalloc(&z, kBytes);
  add<<<kBlocks, kThreads>>>(s.y, z, kCount);
}
void uninitialised_copy(Setting&) {
  float *z = nullptr, host[4];
  cudaMalloc(&z, kBytes);
  cudaMemcpy(host, z, sizeof host, cudaMemcpyDeviceToHost);
}
void host_pointer_in_kernel(Setting&) {
  float host[32] = {};
  set<<<1, 32>>>(host, 32, 1.0f);
}
void null_pointer_in_kernel(Setting&) {
  set<<<1, 32>>>(nullptr, 32, 1.0f);
}
void device_pointer_on_host(Setting& s) {
  s.x[3] = 1.0f;
}
void two_writers_without_event(Setting& s) {
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 1.0f);
  set<<<kBlocks, kThreads, 0, s.two>>>(s.x, kCount, 2.0f);
}
void reader_without_event(Setting& s) {
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 1.0f);
  add<<<kBlocks, kThreads, 0, s.two>>>(s.y, s.x, kCount);
}
void overwritten_while_read(Setting& s) {
  add<<<kBlocks, kThreads, 0, s.one>>>(s.y, s.x, kCount);
  set<<<kBlocks, kThreads, 0, s.two>>>(s.x, kCount, 1.0f);
}
void copy_without_event(Setting& s) {
  cudaMemcpyAsync(s.x, s.pinned, kBytes, cudaMemcpyHostToDevice, s.one);
  add<<<kBlocks, kThreads, 0, s.two>>>(s.y, s.x, kCount);
}
void event_recorded_too_early(Setting& s) {
  cudaEventRecord(s.event, s.one);
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 1.0f);
  cudaStreamWaitEvent(s.two, s.event);
  add<<<kBlocks, kThreads, 0, s.two>>>(s.y, s.x, kCount);
}
void memset_is_asynchronous(Setting& s) {
  cudaMemset(s.x, 0, kBytes);  // on the default stream, which a non-blocking stream does not wait for
  add<<<kBlocks, kThreads, 0, s.two>>>(s.y, s.x, kCount);
}
void pinned_buffer_of_two_streams(Setting& s) {
  cudaMemcpyAsync(s.pinned, s.x, kBytes, cudaMemcpyDeviceToHost, s.one);
  cudaMemcpyAsync(s.y, s.pinned, kBytes, cudaMemcpyHostToDevice, s.two);
}
void host_reads_too_early(Setting& s) {
  cudaMemcpyAsync(s.pinned, s.x, kBytes, cudaMemcpyDeviceToHost, s.one);
  std::printf("%g\n", s.pinned[5]);
}
void host_reads_before_another_streams_copy(Setting& s) {
  cudaMemcpyAsync(s.pinned, s.x, kBytes, cudaMemcpyDeviceToHost, s.one);
  cudaStreamSynchronize(s.two);
  std::printf("%g\n", s.pinned[5]);
}
void host_overwrites_source(Setting& s) {
  cudaMemcpyAsync(s.x, s.pinned, kBytes, cudaMemcpyHostToDevice, s.one);
  s.pinned[0] = 7.0f;
}
void pinned_after_free(Setting& s) {
  cudaFreeHost(s.pinned);
  s.pinned[0] = 1.0f;
}
void copy_past_the_end(Setting& s) {
  cudaMemcpyAsync(s.x, s.pinned, kBytes + 4, cudaMemcpyHostToDevice, s.one);
}
void copy_past_the_end_of_the_device_block(Setting& s) {
  cudaMemcpy(s.x + 1, s.y, kBytes, cudaMemcpyDeviceToDevice);
}
void capture_never_ends_well(Setting& s) {
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(s.one, cudaStreamCaptureModeGlobal);
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 1.0f);
  cudaStreamSynchronize(s.one);
  cudaStreamEndCapture(s.one, &graph);
}
void allocation_in_capture(Setting& s) {
  cudaGraph_t graph = nullptr;
  float* z = nullptr;
  cudaStreamBeginCapture(s.one, cudaStreamCaptureModeGlobal);
  cudaMalloc(&z, kBytes);
  cudaStreamEndCapture(s.one, &graph);
}
void pageable_copy_in_capture(Setting& s) {
  cudaGraph_t graph = nullptr;
  float host[16] = {};
  cudaStreamBeginCapture(s.one, cudaStreamCaptureModeGlobal);
  cudaMemcpyAsync(s.x, host, sizeof host, cudaMemcpyHostToDevice, s.one);
  cudaStreamEndCapture(s.one, &graph);
}
void race_inside_a_graph(Setting& s) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStreamBeginCapture(s.one, cudaStreamCaptureModeGlobal);
  cudaEventRecord(s.event, s.one);
  cudaStreamWaitEvent(s.two, s.event);
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 1.0f);
  add<<<kBlocks, kThreads, 0, s.two>>>(s.y, s.x, kCount);  // not after the kernel on stream one
  cudaEventRecord(s.event, s.two);
  cudaStreamWaitEvent(s.one, s.event);
  cudaStreamEndCapture(s.one, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, s.one);
}
void launch_on_destroyed_stream(Setting& s) {
  cudaStreamDestroy(s.one);
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 1.0f);
}
void record_destroyed_event(Setting& s) {
  cudaEventDestroy(s.event);
  cudaEventRecord(s.event, s.one);
}
void event_of_another_device(Setting& s) {
  cudaSetDevice(1);
  cudaStream_t other = nullptr;
  cudaStreamCreate(&other);
  cudaEventRecord(s.event, other);
}
void launch_into_a_stream_of_another_device(Setting& s) {
  cudaSetDevice(1);
  set<<<kBlocks, kThreads, 0, s.one>>>(s.x, kCount, 1.0f);
}
void no_peer_access(Setting& s) {
  cudaSetDevice(1);
  set<<<kBlocks, kThreads>>>(s.x, kCount, 1.0f);
}
void leaked_memory(Setting& s) {  // with GPUSIM_LEAKS=1
  cudaFree(s.x);
}
void api_in_host_function(Setting& s) {
  cudaLaunchHostFunc(
      s.one, [](void*) { cudaDeviceSynchronize(); }, nullptr);
}
template <class... Parameters, class... Arguments>
void launch_cooperatively(void (*kernel)(Parameters...), int blocks, Arguments... values) {
  void* arguments[] = {&values...};
  cudaLaunchCooperativeKernel(kernel, blocks, kThreads, arguments);
}
const std::map<std::string, Bug> kBugs = {
    {"clean", clean},
    {"write_past_the_end", [](Setting& s) { write_past_the_end<<<kBlocks, kThreads>>>(s.x); }},
    {"read_past_the_end", [](Setting& s) { read_past_the_end<<<kBlocks, kThreads>>>(s.y, s.x); }},
    {"read_before_the_beginning", [](Setting& s) { read_before_the_beginning<<<1, 32>>>(s.y, s.x); }},
    {"shared_past_the_end", [](Setting& s) { shared_past_the_end<<<1, 32>>>(s.x, 1); }},
    {"local_past_the_end", [](Setting& s) { local_past_the_end<<<1, 32>>>(s.x, 8); }},
    {"misaligned_vector", [](Setting& s) { misaligned_vector<<<1, 1>>>(s.x); }},
    {"uninitialised_shared", [](Setting& s) { uninitialised_shared<<<1, 64>>>(s.x); }},
    {"uninitialised_global", uninitialised_global},
    {"uninitialised_copy", uninitialised_copy},
    {"shared_race", [](Setting& s) { shared_race<<<1, 128>>>(s.x); }},
    {"block_race", [](Setting& s) { block_race<<<4, 32>>>(s.x); }},
    {"divergent_barrier", [](Setting& s) { divergent_barrier<<<1, 64>>>(s.x); }},
    {"grid_barrier_without_fence",
     [](Setting& s) { launch_cooperatively(grid_barrier_without_fence, kBlocks, s.x, s.y); }},
    {"grid_barrier_that_a_block_skips",
     [](Setting& s) { launch_cooperatively(grid_barrier_that_a_block_skips, kBlocks, s.y); }},
    {"grid_barrier_in_a_plain_launch", [](Setting& s) { meet<<<kBlocks, kThreads>>>(s.y); }},
    {"cooperative_grid_too_large", [](Setting& s) { launch_cooperatively(meet, 33, s.y); }},
    {"block_too_large", [](Setting& s) { set<<<1, 2048>>>(s.x, kCount, 1.0f); }},
    {"empty_grid", [](Setting& s) { set<<<0, 32>>>(s.x, kCount, 1.0f); }},
    {"too_much_shared_memory", [](Setting& s) { much_dynamic_shared<<<1, 32, 60000>>>(s.x); }},
    {"launch_after_free", launch_after_free},
    {"freed_in_stream_order_and_used", freed_in_stream_order_and_used},
    {"freed_while_another_stream_uses_it", freed_while_another_stream_uses_it},
    {"freed_without_waiting", freed_without_waiting},
    {"double_free",
     [](Setting& s) {
       cudaFree(s.x);
       cudaFree(s.x);
     }},
    {"free_of_the_middle", [](Setting& s) { cudaFree(s.x + 1); }},
    {"free_of_host_memory", [](Setting& s) { cudaFree(s.pinned); }},
    {"double_free_of_pinned",
     [](Setting& s) {
       cudaFreeHost(s.pinned);
       cudaFreeHost(s.pinned);
     }},
    {"host_pointer_in_kernel", host_pointer_in_kernel},
    {"null_pointer_in_kernel", null_pointer_in_kernel},
    {"device_pointer_on_host", device_pointer_on_host},
    {"two_writers_without_event", two_writers_without_event},
    {"reader_without_event", reader_without_event},
    {"overwritten_while_read", overwritten_while_read},
    {"copy_without_event", copy_without_event},
    {"event_recorded_too_early", event_recorded_too_early},
    {"memset_is_asynchronous", memset_is_asynchronous},
    {"pinned_buffer_of_two_streams", pinned_buffer_of_two_streams},
    {"host_reads_too_early", host_reads_too_early},
    {"host_reads_before_another_streams_copy", host_reads_before_another_streams_copy},
    {"host_overwrites_source", host_overwrites_source},
    {"pinned_after_free", pinned_after_free},
    {"wrong_direction", [](Setting& s) { cudaMemcpy(s.x, s.pinned, kBytes, cudaMemcpyDeviceToHost); }},
    {"copy_past_the_end", copy_past_the_end},
    {"copy_past_the_end_of_the_device_block", copy_past_the_end_of_the_device_block},
    {"memset_past_the_end", [](Setting& s) { cudaMemsetAsync(s.x, 0, kBytes + 1, s.one); }},
    {"capture_never_ends_well", capture_never_ends_well},
    {"allocation_in_capture", allocation_in_capture},
    {"pageable_copy_in_capture", pageable_copy_in_capture},
    {"race_inside_a_graph", race_inside_a_graph},
    {"launch_on_destroyed_stream", launch_on_destroyed_stream},
    {"record_destroyed_event", record_destroyed_event},
    {"event_of_another_device", event_of_another_device},
    {"launch_into_a_stream_of_another_device", launch_into_a_stream_of_another_device},
    {"no_peer_access", no_peer_access},
    {"leaked_memory", leaked_memory},
    {"api_in_host_function", api_in_host_function},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "list";
  const auto bug = kBugs.find(name);
  if (bug == kBugs.end()) {
    for (const auto& [known, body] : kBugs) std::printf("%s\n", known.c_str());
    return name == "list" ? 0 : 2;
  }
  Setting setting;
  bug->second(setting);
  cudaSetDevice(0);
  cudaDeviceSynchronize();
  return 0;
}
