// The bytes of a TensorBoard event: protobuf wire format of Event, and the TFRecord frame around it. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "insight/metrics/histogram.h"
#include "runtime/train/metric.h"

namespace trifold {

struct EventTime {
  double wall_time_s = 0;  // since 1970
  std::int64_t step = 0;
};

// The first event of every file.
std::string encode_version_event(double wall_time_s);

// A value for each metric, tagged with its name.
std::string encode_scalars_event(EventTime time, std::span<const Metric> metrics);

struct NamedHistogram {
  std::string name;
  Histogram histogram;
};
std::string encode_histograms_event(EventTime time, std::span<const NamedHistogram> histograms);

struct NamedImage {
  std::string name;
  int height = 0;
  int width = 0;
  int channels = 0;  // 1: gray, 3: RGB
  std::vector<std::byte> png = {};
};
std::string encode_images_event(EventTime time, std::span<const NamedImage> images);

// Tells TensorBoard to forget what earlier files of the run hold from time.step on.
std::string encode_restart_event(EventTime time);

// Length, its masked CRC, the payload, its masked CRC.
std::string frame_record(std::string_view payload);

}  // namespace trifold
