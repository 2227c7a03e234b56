// What the live view shows, as a pure function: a run's state and the size of a terminal give lines of text with tones.
// What does not fit goes in the order of what is missed least; it never shows more lines or columns than there are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "insight/live/cluster_lines.h"
#include "insight/live/live_text.h"
#include "insight/live/sparkline.h"
#include "runtime/executor/rank_activity.h"

namespace trifold {

struct LiveRank {
  int rank = 0;
  std::string place = {};  // "dp 0 pp 1"; empty of the only rank
  Activity activity = Activity::idle;
  std::string work = {};                                       // the layer or exchange; may be empty
  int micro_batch = -1;                                        // -1: of no interest
  double seconds = 0;                                          // since it began
  double compute = 0, communication = 0, input = 0, idle = 0;  // shares of the last second, 0 to 1
  std::size_t plan_bytes = 0;
};

struct LiveMessage {
  std::string text = {};
  Tone tone = Tone::plain;
};

struct LiveState {
  std::string job = {};
  std::string plan = {};
  std::string doing = {};  // "training"
  bool stopping = false;   // the user has asked for it
  double elapsed_s = 0;
  std::int64_t epoch = 0, epochs = 0, step = 0, steps = 0;
  std::optional<double> left_s = {};
  double images_per_s = 0;  // now; 0: not known
  double mean_images_per_s = 0;
  double input_wait_fraction = 0;
  std::vector<double> losses = {};
  std::optional<double> loss = {}, least_loss = {};
  std::optional<double> train_accuracy = {}, test_accuracy = {}, best_test_accuracy = {};
  std::optional<double> test_loss = {};
  std::optional<double> learning_rate = {};
  std::optional<double> loss_scale = {};
  double skipped_updates = 0;
  std::int64_t checkpoint_step = -1;  // -1: none yet
  bool writing_checkpoint = false;
  std::vector<LiveRank> ranks = {};  // of this process
  int ranks_elsewhere = 0;
  int processes = 1;
  std::optional<LiveClusterState> cluster = {};  // whose workers train, in place of ranks
  std::size_t process_bytes = 0;                 // resident
  std::vector<LiveMessage> messages = {};        // the newest last
};

struct LiveSize {
  int columns = 80;
  int rows = 24;
  Glyphs glyphs = Glyphs::unicode;
};

std::vector<LiveLine> layout_live(const LiveState& state, const LiveSize& size);

}  // namespace trifold
