// Numbers as the page shows them: six digits are more than an eye can tell apart, and a third of the bytes.
#pragma once

namespace trifold {

// The nearest number of six significant digits.
double short_number(double value);

}  // namespace trifold
