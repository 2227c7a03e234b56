#include "insight/profile/gpu_figures.h"

#include <algorithm>

namespace trifold {
namespace {

constexpr double kLanes = 32;
constexpr double kSectorBytes = 32;

std::int64_t threads_of(const GpuKernel& kernel) {
  std::int64_t threads = 1;
  for (const int size : kernel.grid) threads *= size;
  for (const int size : kernel.block) threads *= size;
  return threads;
}

double mean(double a, std::int64_t weight_a, double b, std::int64_t weight_b) {
  const auto weights = static_cast<double>(weight_a + weight_b);
  return weights == 0 ? 0 : (a * static_cast<double>(weight_a) + b * static_cast<double>(weight_b)) / weights;
}

}  // namespace

GpuKernel& GpuKernel::operator+=(const GpuKernel& other) {
  if (threads_of(other) > threads_of(*this) || launches == 0) {
    grid = other.grid;
    block = other.block;
  }
  const std::int64_t known = occupancy > 0 ? launches : 0;
  occupancy = mean(occupancy, known, other.occupancy, other.occupancy > 0 ? other.launches : 0);
  registers = std::max(registers, other.registers);
  shared_bytes = std::max(shared_bytes, other.shared_bytes);
  launches += other.launches;
  counted += other.counted;
  total_ms += other.total_ms;
  counts += other.counts;
  return *this;
}

GpuKernel& GpuFigures::kernel(const std::string& name) {
  const auto place = std::ranges::lower_bound(kernels, name, {}, &GpuKernel::name);
  if (place != kernels.end() && place->name == name) return *place;
  return *kernels.insert(place, GpuKernel{.name = name});
}

GpuKernel GpuFigures::all() const {
  GpuKernel sum;
  std::int64_t known = 0;  // launches whose occupancy is
  double occupancy = 0;
  for (const GpuKernel& each : kernels) {
    sum += each;
    if (each.occupancy == 0) continue;
    occupancy = mean(occupancy, known, each.occupancy, each.launches);
    known += each.launches;
  }
  sum.occupancy = occupancy;
  return sum;
}

GpuFigures& GpuFigures::operator+=(const GpuFigures& other) {
  for (const GpuKernel& each : other.kernels) kernel(each.name) += each;
  copies += other.copies;
  copied_bytes += other.copied_bytes;
  return *this;
}

double lane_percent(const LaunchCounts& counts) {
  return counts.warp_instructions == 0 ? 0 : 100 * counts.lane_instructions / (kLanes * counts.warp_instructions);
}

double sectors_by_ideal(const LaunchCounts& counts) {
  const double asked = counts.read_bytes + counts.write_bytes;
  return asked == 0 ? 0 : kSectorBytes * (counts.read_sectors + counts.write_sectors) / asked;
}

}  // namespace trifold
