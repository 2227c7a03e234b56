// A row of bars as text: the course of a value in as many columns as there are.
#pragma once

#include <span>
#include <string>

namespace trifold {

enum class Glyphs { ascii, unicode };

// At most `columns` bars, each the mean of its share of the values, from the least (lowest bar) to the largest; values
// that are not finite are left out, and a column of nothing else is blank. Fewer values than columns: fewer bars.
std::string sparkline(std::span<const double> values, int columns, Glyphs glyphs);

// A bar of `columns` that is full for done = 1.
std::string filled_bar(double done, int columns, Glyphs glyphs);

}  // namespace trifold
