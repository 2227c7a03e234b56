#include "kernels/cpu/bf16.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/aligned_memory.h"
#include "core/half.h"
#include "kernels/cpu/conv_candidates.h"
#include "kernels/cpu/linear_candidates.h"
#include "kernels/cpu/onednn.h"

namespace trifold::cpu {
namespace {

constexpr unsigned kPatienceSeconds = 20;

// Small whole numbers: exact in bf16, and so are their products.
std::vector<float> small_numbers(std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>((i * 7 + i / 5) % 5) - 2.0f;
  return numbers;
}

// A tensor's elements as its type stores them.
AlignedMemory stored(const std::vector<float>& numbers, DType type) {
  AlignedMemory memory(numbers.size() * size_of(type));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (type == DType::f32) {
      reinterpret_cast<float*>(memory.data())[i] = numbers[i];
    } else {
      reinterpret_cast<std::uint16_t*>(memory.data())[i] = bf16_from_float(numbers[i]);
    }
  }
  return memory;
}

float element(const AlignedMemory& memory, DType type, std::size_t i) {
  if (type == DType::f32) return reinterpret_cast<const float*>(memory.data())[i];
  return float_from_bf16(reinterpret_cast<const std::uint16_t*>(memory.data())[i]);
}

// What the pass writes, from small numbers in the others; nothing where oneDNN has no such convolution.
std::vector<float> convolve(Pass pass, DType type) {
  ConvProblem problem = {.pass = pass,
                         .x = {{2, 32, 6, 6}, type},
                         .w = {{32, 32, 3, 3}, pass == Pass::backward_weights ? DType::f32 : type},
                         .y = {{2, 32, 6, 6}, type},
                         .args = {.pad = {1, 1}},
                         .conversion = Conversion::all};
  auto primitive = ConvPrimitive::create(problem);
  if (!primitive) return {};
  const AlignedMemory x = stored(small_numbers(problem.x.elements()), problem.x.dtype);
  const AlignedMemory w = stored(small_numbers(problem.w.elements()), problem.w.dtype);
  const AlignedMemory y = stored(small_numbers(problem.y.elements()), problem.y.dtype);
  AlignedMemory scratch(primitive->scratch_bytes());
  primitive->bind({x.data(), w.data(), y.data(), nullptr}, scratch.data());
  primitive->execute();
  const AlignedMemory& written = pass == Pass::forward ? y : pass == Pass::backward_data ? x : w;
  const TensorDesc& desc = pass == Pass::forward ? problem.y : pass == Pass::backward_data ? problem.x : problem.w;
  std::vector<float> result(static_cast<std::size_t>(desc.elements()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = element(written, desc.dtype, i);
  return result;
}

// Sums of small whole numbers are exact in float; bf16 may round them once, at the end.
bool convolves_in_bf16() {
  for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weights}) {
    const std::vector<float> expected = convolve(pass, DType::f32);
    const std::vector<float> found = convolve(pass, DType::bf16);
    const bool equal =
        std::ranges::equal(expected, found, [](float a, float b) { return std::abs(a - b) <= std::abs(a) / 128; });
    if (found.empty() || !equal) return false;
  }
  return true;
}

bool reports_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") > 0;
#else
  return true;  // oneDNN knows
#endif
}

// In bf16 as training makes it: a bias and gradients of weights stay in f32.
bool is_in_bf16(const KernelRequest& request) {
  const auto typed = [&](std::span<const TensorDesc> tensors, Op::Side side) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const DType expected = request.op.keeps_f32(side, static_cast<int>(i)) ? DType::f32 : DType::bf16;
      if (tensors[i].dtype != expected) return false;
    }
    return true;
  };
  return typed(request.in, Op::Side::in) && typed(request.out, Op::Side::out);
}

}  // namespace

std::string failure_in_child(const std::function<bool()>& attempt) {
  const pid_t child = ::fork();
  if (child < 0) return fmt::format("they could not be tried ({})", std::strerror(errno));
  if (child == 0) {
    ::alarm(kPatienceSeconds);
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ::signal(signal, SIG_DFL);  // no sanitizer's report
    bool good = false;
    try {
      good = attempt();
    } catch (...) {
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return fmt::format("trying them ended with '{}'", ::strsignal(WTERMSIG(status)));
  return WEXITSTATUS(status) == 0 ? "" : "oneDNN has no right result with them";
}

const std::string& why_no_bf16() {
  static const std::string reason = [] {
    if (!reports_bf16()) return std::string("this processor has no bf16 instructions");
    const std::string failure = failure_in_child(convolves_in_bf16);
    return failure.empty() ? failure : "this processor reports bf16 instructions, but " + failure;
  }();
  return reason;
}

std::vector<KernelPtr> bf16_candidates(const KernelRequest& request) {
  if (!is_product(request.op.kind())) return {};
  if (!is_in_bf16(request) || !why_no_bf16().empty()) return {};
  return request.op.kind() == OpKind::convolution ? conv_candidates(request) : linear_candidates(request);
}

}  // namespace trifold::cpu
