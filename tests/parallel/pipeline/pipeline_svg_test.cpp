// The picture of a schedule, as a reader of XML sees it.
#include "parallel/pipeline/pipeline_svg.h"

#include <gtest/gtest.h>

#include "runtime/checkpoint/python.h"

namespace trifold {
namespace {

// Prints how many boxes there are, and what is wrong with them.
constexpr const char* kLook = R"(
import xml.etree.ElementTree as tree
name = lambda element: element.tag.split('}')[1]
svg = tree.parse(FILE).getroot()
assert name(svg) == 'svg'
width, height = float(svg.get('width')), float(svg.get('height'))
rows = {}
for group in svg.iter():
    if name(group) != 'g' or not group.get('class', '').startswith('box '):
        continue
    box = next(child for child in group if name(child) == 'rect')
    x, y, w, h = (float(box.get(key)) for key in ('x', 'y', 'width', 'height'))
    if x < 0 or y < 0 or w <= 0 or h <= 0 or x + w > width or y + h > height:
        print('outside:', box.attrib)
    title = next(child for child in group if name(child) == 'title').text
    rows.setdefault(y, []).append((x, x + w, title))
tops = sorted(rows)
for y, below in zip(tops, tops[1:] + [height]):
    if y + h > below:
        print('rows meet at', y)
    boxes = sorted(rows[y])
    for (_, end, title), (begin, _, after) in zip(boxes, boxes[1:]):
        if end > begin:
            print('overlap:', title, after)
print(len(rows), 'rows,', sum(map(len, rows.values())), 'boxes')
)";

// What the reader says of the picture.
std::string look_at(const std::string& svg) {
  const testing::TemporaryDirectory directory;
  testing::write_file(directory / "picture.svg", svg);
  const testing::PythonResult result =
      testing::run_python("FILE = '" + (directory / "picture.svg").string() + "'\n" + kLook);
  EXPECT_EQ(result.exit_status, 0) << result.output;
  return result.output;
}

std::string draw(const Pipeline& pipeline, const std::vector<StageCost>& costs) {
  return to_svg(play(pipeline, costs), pipeline);
}

std::string draw_even(const Pipeline& pipeline, const StageCost& cost = {}) {
  return draw(pipeline, std::vector<StageCost>(static_cast<std::size_t>(pipeline.stages), cost));
}

TEST(PipelineSvg, HasABoxForEveryPieceOfWorkAndNoneOverlap) {
  EXPECT_EQ(look_at(draw_even({.stages = 4, .micro_batches = 8})), "4 rows, 64 boxes\n");
  EXPECT_EQ(look_at(draw_even({&pipeline_schedule("gpipe"), 3, 5})), "3 rows, 30 boxes\n");
  EXPECT_EQ(look_at(draw_even({&pipeline_schedule("zero-bubble"), 4, 8})), "4 rows, 96 boxes\n");
  EXPECT_EQ(look_at(draw_even({&pipeline_schedule("interleaved"), 4, 8, 3})), "4 rows, 192 boxes\n");
  EXPECT_EQ(look_at(draw_even({&pipeline_schedule("pipedream"), 1, 1})), "1 rows, 2 boxes\n");
}

// Uneven stages, times that are no whole numbers, and so many micro-batches that boxes are slim.
TEST(PipelineSvg, TakesAnyTimes) {
  EXPECT_EQ(look_at(draw({.stages = 2, .micro_batches = 300}, {{0.001, 0.3, 0.1}, {7, 0.01, 1.7, 2}})),
            "2 rows, 1200 boxes\n");
  EXPECT_EQ(look_at(draw({.stages = 2, .micro_batches = 2}, {{1e6, 2e6, 3e6}, {1e6, 1e6, 1e6}})), "2 rows, 8 boxes\n");
}

TEST(PipelineSvg, SaysWhatItShows) {
  const std::string svg = draw_even({.stages = 2, .micro_batches = 2});
  for (const char* text :
       {">1f1b: 2 stages, 2 micro-batches<", ">bubble 50.0 % of the work; at most 2, 1 micro-batches held<",
        ">stage 1<", "<title>B1, 7 to 9</title>", ">forward<", ">backward<", ">waiting<", ">time<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find(">gradients of weights<"), std::string::npos) << "the legend has what is drawn";
  EXPECT_NE(draw_even({&pipeline_schedule("zero-bubble-h2"), 2, 4}).find(">gradients of weights<"), std::string::npos);
}

}  // namespace
}  // namespace trifold
