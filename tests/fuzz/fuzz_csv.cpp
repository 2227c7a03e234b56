// A table. The first line of the input is the label column to ask for; a digit before it asks for that many targets.
#include <cmath>
#include <string_view>

#include "only_errors.h"
#include "runtime/data/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trifold;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  CsvOptions options;
  if (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    options.targets = text.front() - '0';
    text.remove_prefix(1);
  }
  const std::size_t line_end = text.find('\n');
  options.label_column = text.substr(0, line_end);
  text.remove_prefix(line_end == std::string_view::npos ? text.size() : line_end + 1);
  fuzz::accepts([&] {
    const CsvTable table = parse_csv(text, "fuzz.csv", options);
    const std::size_t rows = table.lines.size();
    if (table.features < 1 || table.values.size() != rows * static_cast<std::size_t>(table.features) ||
        table.labels.size() != (options.targets > 0 ? 0 : rows) ||
        table.targets.size() != rows * static_cast<std::size_t>(options.targets))
      fuzz::report_defect("the table's parts do not match its rows");
    for (const float value : table.values)
      if (!std::isfinite(value)) fuzz::report_defect("a value that is not finite");
  });
  return 0;
}
