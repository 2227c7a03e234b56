// A played schedule as a picture: a row a stage, a box for every piece of its work, coloured by kind, with the number
// of its micro-batch; where a row has no box the stage waits.
#pragma once

#include <string>

#include "parallel/pipeline/pipeline_timeline.h"

namespace trifold {

// An SVG file's text, readable on light and dark screens. Boxes are groups of the class "box", each with a title of
// its own: "F3, 4 to 5".
std::string to_svg(const Timeline& timeline, const Pipeline& pipeline);

}  // namespace trifold
