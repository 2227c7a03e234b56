#include "insight/profile/machine_roofs.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "core/dummy_memory.h"
#include "core/parallel.h"
#include "core/processor.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/simd/element_loops.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/cpu/tuner.h"
#include "parallel/communicator/local_communicator.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 20;
constexpr std::int64_t kSide = 1024;  // of the matrices

// The best of several: other programs only ever make it longer.
double best_seconds(int runs, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

std::string name_of_machine() {
  return fmt::format("{}, {}", processor_name(), cpu::isa_name(cpu::active_isa()));
}

double product_gflops(DType type, int threads) {
  auto product =
      cpu::InnerProductPrimitive::create({.batch = kSide, .in = kSide, .out = kSide, .threads = threads, .type = type});
  if (!product) return 0;
  const std::size_t bytes = static_cast<std::size_t>(kSide * kSide) * sizeof(float);
  const AlignedMemory x = dummy_memory(bytes), w = dummy_memory(bytes), y = dummy_memory(bytes);
  const AlignedMemory scratch(std::max<std::size_t>(product->scratch_bytes(), 64));
  product->bind({.x = x.data(), .w = w.data(), .y = y.data()}, scratch.data());
  product->execute();
  return 2.0 * kSide * kSide * kSide / best_seconds(kRuns, [&] { product->execute(); }) / 1e9;
}

// y += x over so many bytes of each a thread, by the loops that kernels use, `times` in one go: two reads and a write.
double stream_gbps(std::size_t bytes_a_thread, int threads, int times) {
  const auto count = static_cast<std::int64_t>(bytes_a_thread / sizeof(float));
  const AlignedMemory x = dummy_memory(bytes_a_thread * static_cast<std::size_t>(threads));
  const AlignedMemory y = dummy_memory(bytes_a_thread * static_cast<std::size_t>(threads));
  const auto pass = [&] {
    parallel([&](int thread, int) {
      const Range range{thread * count, (thread + 1) * count};
      for (int time = 0; time < times; ++time)
        cpu::element_loops().add_in_place(reinterpret_cast<const float*>(x.data()), reinterpret_cast<float*>(y.data()),
                                          range);
    });
  };
  pass();
  return 3.0 * static_cast<double>(bytes_a_thread) * threads * times / best_seconds(kRuns, pass) / 1e9;
}

double launch_us() {
  constexpr int kLaunches = 1000;
  return 1e6 / kLaunches * best_seconds(kRuns, [] {
           for (int i = 0; i < kLaunches; ++i) parallel([](int, int) {});
         });
}

MachineRoofs::AllReduce measure_all_reduce(std::int64_t bytes, int ranks) {
  const auto group = make_local_group({.size = ranks});
  std::vector<double> seconds(group.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < group.size(); ++rank)
    threads.emplace_back([&, rank] {
      std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float), 0.0f);
      seconds[rank] = best_seconds(kRuns, [&] { group[rank]->wait(group[rank]->all_reduce(data)); });
    });
  for (std::thread& thread : threads) thread.join();
  return {bytes, static_cast<double>(bytes) / *std::ranges::max_element(seconds) / 1e9};
}

}  // namespace

MachineRoofs measure_roofs(int threads) {
  const int before = thread_count();
  set_thread_count(threads);
  const long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  const std::size_t cache_a_thread = cache > 0 ? static_cast<std::size_t>(cache) : std::size_t{512} << 10;
  MachineRoofs roofs{.machine = name_of_machine(), .threads = threads};
  roofs.cache_bytes = static_cast<double>(cache_a_thread) * threads;
  roofs.fp32_gflops = product_gflops(DType::f32, threads);
  if (cpu::why_no_bf16().empty()) roofs.bf16_gflops = product_gflops(DType::bf16, threads);
  roofs.memory_gbps = stream_gbps((std::size_t{128} << 20) / static_cast<std::size_t>(threads), threads, 1);
  roofs.cache_gbps = stream_gbps(cache_a_thread / 4, threads, 200);
  roofs.launch_us = launch_us();
  if (threads > 1)
    for (const std::int64_t bytes : {std::int64_t{64} << 10, std::int64_t{1} << 20, std::int64_t{16} << 20})
      roofs.all_reduce.push_back(measure_all_reduce(bytes, threads));
  set_thread_count(before);
  return roofs;
}

std::optional<std::filesystem::path> roofs_file() {
  const auto tuning = cpu::tuning_file();
  return tuning ? std::optional(tuning->parent_path() / "roofs.json") : std::nullopt;
}

MachineRoofs better_of(MachineRoofs a, const MachineRoofs& b) {
  a.fp32_gflops = std::max(a.fp32_gflops, b.fp32_gflops);
  a.bf16_gflops = std::max(a.bf16_gflops, b.bf16_gflops);
  a.memory_gbps = std::max(a.memory_gbps, b.memory_gbps);
  a.cache_gbps = std::max(a.cache_gbps, b.cache_gbps);
  a.launch_us = std::min(a.launch_us, b.launch_us);
  for (std::size_t i = 0; i < std::min(a.all_reduce.size(), b.all_reduce.size()); ++i)
    a.all_reduce[i].gbps = std::max(a.all_reduce[i].gbps, b.all_reduce[i].gbps);
  return a;
}

MachineRoofs roofs_of_machine(int threads, const std::optional<std::filesystem::path>& file, bool anew) {
  std::optional<MachineRoofs> known;
  if (file) {
    std::ifstream stream(*file);
    std::stringstream text;
    text << stream.rdbuf();
    known = parse_roofs(text.str());
    if (known && (known->threads != threads || known->machine != name_of_machine())) known.reset();
  }
  if (known && !anew) return *known;
  MachineRoofs roofs = measure_roofs(threads);
  if (known) roofs = better_of(std::move(roofs), *known);
  if (!file) return roofs;
  try {
    std::filesystem::create_directories(file->parent_path());
    write_file_atomically(*file, to_json_text(roofs));
  } catch (const std::exception& error) {
    spdlog::debug("the machine's roofs were not kept: {}", error.what());
  }
  return roofs;
}

std::string to_text(const MachineRoofs& roofs) {
  std::string text = fmt::format(
      "{}, {} threads: products {:.0f} GFLOP/s in fp32{}; memory {:.1f} GB/s, caches {:.0f} GB/s; {:.1f} us to start a "
      "kernel",
      roofs.machine, roofs.threads, roofs.fp32_gflops,
      roofs.bf16_gflops > 0 ? fmt::format(", {:.0f} in bf16", roofs.bf16_gflops) : "", roofs.memory_gbps,
      roofs.cache_gbps, roofs.launch_us);
  for (const auto& [bytes, gbps] : roofs.all_reduce)
    text +=
        fmt::format("{} {} KiB {:.1f}", &bytes == &roofs.all_reduce.front().bytes ? "; sums between ranks, GB/s:" : ",",
                    bytes >> 10, gbps);
  return text;
}

std::string to_json_text(const MachineRoofs& roofs) {
  nlohmann::ordered_json json = {{"machine", roofs.machine},         {"threads", roofs.threads},
                                 {"fp32_gflops", roofs.fp32_gflops}, {"bf16_gflops", roofs.bf16_gflops},
                                 {"memory_gbps", roofs.memory_gbps}, {"cache_gbps", roofs.cache_gbps},
                                 {"launch_us", roofs.launch_us},     {"cache_bytes", roofs.cache_bytes}};
  json["all_reduce"] = nlohmann::ordered_json::array();
  for (const auto& [bytes, gbps] : roofs.all_reduce) json["all_reduce"].push_back({{"bytes", bytes}, {"gbps", gbps}});
  return json.dump();
}

std::optional<MachineRoofs> parse_roofs(const std::string& json_text) {
  try {
    const auto json = nlohmann::json::parse(json_text);
    MachineRoofs roofs{.machine = json.at("machine"),
                       .threads = json.at("threads"),
                       .fp32_gflops = json.at("fp32_gflops"),
                       .bf16_gflops = json.at("bf16_gflops"),
                       .memory_gbps = json.at("memory_gbps"),
                       .cache_gbps = json.at("cache_gbps"),
                       .launch_us = json.at("launch_us"),
                       .cache_bytes = json.at("cache_bytes")};
    for (const auto& each : json.at("all_reduce")) roofs.all_reduce.push_back({each.at("bytes"), each.at("gbps")});
    return roofs;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace trifold
