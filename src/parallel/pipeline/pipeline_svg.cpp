#include "parallel/pipeline/pipeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trifold {
namespace {

// Pixels.
constexpr double kLeft = 84;  // of the rows' names
constexpr double kRight = 24;
constexpr double kTop = 76;  // of title and summary
constexpr double kRow = 34;
constexpr double kGap = 8;  // between rows
constexpr double kAxis = 44;
constexpr double kLegend = 40;
constexpr double kShortest = 26;  // box: a number of two figures fits
constexpr double kNarrowest = 620;
constexpr double kWidest = 6000;

constexpr double kDarkest = 0.42;  // shade, of the last chunk

// By Work.
constexpr std::array<const char*, 4> kClasses = {"f", "b", "i", "w"};
constexpr std::array<const char*, 4> kMeanings = {"forward", "backward", "gradient of the input",
                                                  "gradients of weights"};

constexpr const char* kStyle = R"-(
  text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #1f2430 }
  .page { fill: #ffffff }
  .title { font-size: 17px; font-weight: 600 }
  .quiet { fill: #5d6575 }
  .number { fill: #ffffff; font-weight: 600; text-anchor: middle }
  .name { text-anchor: end }
  .tick { text-anchor: middle; fill: #5d6575; font-size: 11px }
  .wait { fill: #eceff4 } .idle { fill: url(#waiting) }
  .hatch { stroke: #cfd5e0; stroke-width: 1.5 }
  .line { stroke: #aab2c0; stroke-width: 1 }
  .f rect { fill: #3566c4 } .b rect { fill: #c2571a } .i rect { fill: #b3325e } .w rect { fill: #2c7d57 }
  .box .shade { fill: #000000 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e9f0 } .quiet, .tick { fill: #a3abbb } .number { fill: #ffffff }
    .page { fill: #15181f } .wait { fill: #232834 } .hatch { stroke: #39404f } .line { stroke: #5d6575 }
    .f rect { fill: #4a7de0 } .b rect { fill: #cf6a2e } .i rect { fill: #c9487a } .w rect { fill: #35936a }
  }
)-";

// 1, 2 or 5 times a power of ten, so that there are about a dozen of them.
double tick_of(double total) {
  const double power = std::pow(10, std::floor(std::log10(total / 12)));
  for (const double times : {1.0, 2.0, 5.0})
    if (total / (times * power) <= 16) return times * power;
  return 10 * power;
}

class Picture {
 public:
  Picture(const Timeline& timeline, const Pipeline& pipeline) : timeline_(timeline), pipeline_(pipeline) {
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& stage : timeline.stages)
      for (const TimedAction& each : stage)
        if (each.end > each.begin) shortest = std::min(shortest, each.end - each.begin);
    scale_ = std::clamp(kShortest / shortest * timeline.total, kNarrowest, kWidest) / timeline.total;
  }

  std::string draw() {
    const double width = std::ceil(kLeft + scale_ * timeline_.total + kRight);
    const double height = bottom() + kAxis + kLegend;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" height="{1:g}" viewBox="0 0 {0:g} {1:g}">)", width,
        height);
    add("<style>{}</style>", kStyle);
    add(R"(<defs><pattern id="waiting" width="8" height="8" patternUnits="userSpaceOnUse" )"
        R"-(patternTransform="rotate(45)"><rect class="wait" width="8" height="8"/>)-"
        R"(<line class="hatch" x1="0" y1="0" x2="0" y2="8"/></pattern></defs>)");
    add(R"(<rect class="page" width="100%" height="100%"/>)");
    add_head();
    add_axis();
    for (std::size_t stage = 0; stage < timeline_.stages.size(); ++stage) add_row(stage);
    add_legend();
    add("</svg>");
    return std::move(text_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  double x(double time) const { return kLeft + scale_ * time; }
  double bottom() const { return kTop + static_cast<double>(timeline_.stages.size()) * (kRow + kGap); }

  void add_head() {
    const std::string chunks = pipeline_.chunks > 1 ? fmt::format(", {} chunks a stage", pipeline_.chunks) : "";
    add(R"(<text class="title" x="{:g}" y="30">{}: {} stages, {} micro-batches{}</text>)", kGap * 2,
        pipeline_.schedule->name, pipeline_.stages, pipeline_.micro_batches, chunks);
    add(R"(<text class="quiet" x="{:g}" y="52">bubble {:.1f} % of the work; at most {} micro-batches{} held</text>)",
        kGap * 2, 100 * timeline_.bubble(), fmt::join(timeline_.held, ", "), pipeline_.chunks > 1 ? " of a chunk" : "");
  }

  void add_row(std::size_t stage) {
    const double y = kTop + static_cast<double>(stage) * (kRow + kGap);
    add(R"(<text class="name" x="{:g}" y="{:g}">stage {}</text>)", kLeft - 12, y + kRow / 2 + 4, stage);
    add(R"(<rect class="idle" x="{:g}" y="{:g}" width="{:.2f}" height="{:g}" rx="3"/>)", kLeft, y,
        scale_ * timeline_.total, kRow);
    for (const TimedAction& each : timeline_.stages[stage]) add_box(each, y);
  }

  void add_box(const TimedAction& each, double y) {
    const auto kind = static_cast<std::size_t>(each.action.work);
    drawn_[kind] = true;
    const double width = scale_ * (each.end - each.begin);
    const double apart = std::min(1.0, width / 4);  // neighbours
    const std::string outline = fmt::format(R"(x="{:.4f}" y="{:g}" width="{:.4f}" height="{:g}" rx="3")",
                                            x(each.begin) + apart / 2, y, width - apart, kRow);
    add(R"(<g class="box {}"><title>{}, {:g} to {:g}</title><rect {}/>{}{}</g>)", kClasses[kind],
        to_string(each.action), each.begin, each.end, outline, shade(each.action.chunk, outline),
        width < kShortest / 2 ? ""
                              : fmt::format(R"(<text class="number" x="{:.2f}" y="{:g}">{}</text>)",
                                            x(each.begin) + width / 2, y + kRow / 2 + 4, each.action.micro_batch));
  }

  std::string shade(int chunk, const std::string& outline) const {
    if (chunk == 0) return "";
    return fmt::format(R"(<rect class="shade" fill-opacity="{:.2f}" {}/>)", kDarkest * chunk / (pipeline_.chunks - 1),
                       outline);
  }

  void add_axis() {
    const double y = bottom() + 2;
    add(R"(<line class="line" x1="{:g}" y1="{:g}" x2="{:.2f}" y2="{:g}"/>)", kLeft, y, x(timeline_.total), y);
    const double tick = tick_of(timeline_.total);
    for (int i = 0; i * tick <= timeline_.total * (1 + 1e-9); ++i) {
      add(R"(<line class="line" x1="{0:.2f}" y1="{1:g}" x2="{0:.2f}" y2="{2:g}"/>)", x(i * tick), y, y + 5);
      add(R"(<text class="tick" x="{:.2f}" y="{:g}">{:g}</text>)", x(i * tick), y + 19, i * tick);
    }
    add(R"(<text class="name quiet" x="{:g}" y="{:g}">time</text>)", kLeft - 12, y + 19);
  }

  void add_legend() {
    const double y = bottom() + kAxis + 2;
    double at = kLeft;
    const auto entry = [&](const std::string& swatch, const std::string& meaning) {
      add("{}", swatch);
      add(R"(<text x="{:g}" y="{:g}">{}</text>)", at + 24, y + 12, meaning);
      at += 24 + 6.3 * static_cast<double>(meaning.size()) + 20;
    };
    const auto swatch = [&](const std::string& fill) {
      return fmt::format(R"(<rect{} x="{:g}" y="{:g}" width="16" height="16" rx="3"/>)", fill, at, y);
    };
    for (std::size_t kind = 0; kind < kClasses.size(); ++kind)
      if (drawn_[kind]) entry(fmt::format(R"(<g class="{}">{}</g>)", kClasses[kind], swatch("")), kMeanings[kind]);
    entry(swatch(R"( class="idle")"), "waiting");
    if (pipeline_.chunks > 1) add(R"(<text class="quiet" x="{:g}" y="{:g}">darker: later chunks</text>)", at, y + 12);
  }

  const Timeline& timeline_;
  const Pipeline& pipeline_;
  double scale_ = 1;  // pixels a unit of time
  std::array<bool, 4> drawn_ = {};
  std::string text_;
};

}  // namespace

std::string to_svg(const Timeline& timeline, const Pipeline& pipeline) {
  return Picture(timeline, pipeline).draw();
}

}  // namespace trifold
