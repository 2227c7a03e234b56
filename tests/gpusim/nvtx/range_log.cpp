// A tool that NVTX loads into a program (NVTX_INJECTION64_PATH): it notes the ranges of one domain that are pushed and
// popped, for tests. Other domains are those of libraries that the program is made of (CUB).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include <nvtx3/nvToolsExt.h>

namespace {

struct Log {
  std::mutex mutex;
  std::string text;
};
Log& log() {
  static auto* one = new Log;
  return *one;
}

void note(const std::string& what) {
  static std::atomic<int> threads = 0;
  thread_local const int thread = threads++;
  const std::lock_guard lock(log().mutex);
  log().text += std::to_string(thread) + " " + what + "\n";
}

constexpr const char* kDomain = "trifold";

nvtxDomainHandle_t noted_domain() {
  static char one;
  return reinterpret_cast<nvtxDomainHandle_t>(&one);
}

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  return std::strcmp(name, kDomain) == 0 ? noted_domain() : nullptr;
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  if (domain == noted_domain()) note(std::string("push ") + attributes->message.ascii);
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t domain) {
  if (domain == noted_domain()) note("pop");
  return 0;
}

template <class Function>
void answer(NvtxFunctionTable table, unsigned which, Function function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// What NVTX calls at the program's first range.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned entries = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &entries)) return 0;
  if (entries <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  answer(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  answer(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  answer(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

// Copies what was noted since the last time, a line each ("0 push conv1", "0 pop": a thread's number and what it did),
// cut to `capacity`, and forgets it. Returns its length.
extern "C" __attribute__((visibility("default"))) std::size_t nvtx_log_take(char* text, std::size_t capacity) {
  const std::lock_guard lock(log().mutex);
  const std::size_t length = log().text.size();
  const std::size_t copied = std::min(length, capacity - 1);
  std::memcpy(text, log().text.data(), copied);
  text[copied] = '\0';
  log().text.clear();
  return length;
}
