#include "runtime/data/csv.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "runtime/data/file_bytes.h"
#include "runtime/data/memory_rows.h"
#include "runtime/data/source.h"

namespace trifold {

namespace {

std::string_view trimmed(std::string_view field) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!field.empty() && blank(field.front())) field.remove_prefix(1);
  while (!field.empty() && blank(field.back())) field.remove_suffix(1);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  return field;
}

// A finite float, or nothing.
std::optional<float> to_number(std::string_view field) {
  if (!field.empty() && field.front() == '+') field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size()) return std::nullopt;
  if (!(std::abs(value) <= double{std::numeric_limits<float>::max()})) return std::nullopt;
  return static_cast<float>(value);
}

// Takes the next line off the front of `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

void split_fields(std::string_view line, char separator, std::vector<std::string_view>& fields) {
  fields.clear();
  for (;;) {
    const std::size_t end = line.find(separator);
    fields.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

char separator_of(std::string_view line) {
  for (const char candidate : {',', ';', '\t'}) {
    if (line.find(candidate) != std::string_view::npos) return candidate;
  }
  return ',';
}

// What a message shows of a field, which may be anything of any length.
std::string shown(std::string_view field) {
  std::string text(field.substr(0, 40));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text + (field.size() > 40 ? "..." : "");
}

int find_column(std::span<const std::string_view> header, int columns, std::string_view name, const char* what,
                const std::string& wanted) {
  const auto named = std::find(header.begin(), header.end(), std::string_view(wanted));
  if (named != header.end()) return static_cast<int>(named - header.begin());
  int index = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  if (error != std::errc{} || end != wanted.data() + wanted.size()) {
    fail_input("{}: no column is called \"{}\" ({}); name one of its {} columns, or give an index", name, wanted,
               header.empty() ? "the file has no header" : "see its first line", columns);
  }
  if (index < -columns || index >= columns) {
    fail_input("{}: expected a {} column of 0..{}, found {}; the file has {} columns", name, what, columns - 1, index,
               columns);
  }
  return index < 0 ? index + columns : index;
}

int last_column_but(int column, int columns) {
  return columns - (column == columns - 1 ? 2 : 1);
}

double time_of_field(std::string_view field, std::string_view name, std::int64_t line, int column) {
  const std::optional<double> time = parse_time(field);
  if (!time)
    fail_input("{}:{}: expected a time in column {}, a number or a date such as 2024-02-29T23:59:30Z, found \"{}\"",
               name, line, column, shown(field));
  return *time;
}

// Takes a number of exactly so many digits off the front.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc{} || end != text.data() + digits || text.front() == '-') return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<double> parse_time(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size())
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  const auto year = take_digits(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, "-")) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  double seconds = 86400.0 * static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  if (text.empty()) return seconds;
  if (!take(text, "T ")) return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ":")) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  seconds += 3600.0 * *hour + 60.0 * *minute;
  if (take(text, ":")) {
    const auto second = take_digits(text, 2);
    if (!second || *second > 60) return std::nullopt;
    seconds += *second;
    if (text.starts_with('.')) {
      double fraction = 0;
      const auto [after, bad] =
          std::from_chars(text.data(), text.data() + text.size(), fraction, std::chars_format::fixed);
      if (bad != std::errc{}) return std::nullopt;
      seconds += fraction;
      text.remove_prefix(static_cast<std::size_t>(after - text.data()));
    }
  }
  take(text, "Z");
  return text.empty() ? std::optional(seconds) : std::nullopt;
}

CsvTable parse_csv(std::string_view text, std::string_view name, const CsvOptions& options) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the byte-order mark some editors write
  if (options.targets > 0 && !options.label_column.empty()) {
    fail_input("{}: a table has a label column or float targets, not both; remove one of the two", name);
  }
  CsvTable table;
  std::vector<std::string_view> fields;
  std::vector<std::string_view> header;
  char separator = ',';
  int columns = 0;
  int label_column = -1;
  int time_column = -1;
  for (std::int64_t line_number = 1; !text.empty(); ++line_number) {
    const std::string_view line = take_line(text);
    if (trimmed(line).empty()) continue;
    if (columns == 0) {
      separator = separator_of(line);
      split_fields(line, separator, fields);
      columns = static_cast<int>(fields.size());
      const bool dates = !options.time_column.empty();
      const auto is_word = [&](std::string_view field) {
        return !field.empty() && !to_number(field) && !(dates && parse_time(field));
      };
      const bool words = std::any_of(fields.begin(), fields.end(), is_word);
      if (words) header = fields;
      if (!options.time_column.empty()) time_column = find_column(header, columns, name, "time", options.time_column);
      if (options.targets == 0) {
        label_column = options.label_column.empty() ? last_column_but(time_column, columns)
                                                    : find_column(header, columns, name, "label", options.label_column);
      } else if (time_column >= columns - options.targets) {
        fail_input("{}: the last {} columns are targets, and the time column is one of them; move it", name,
                   options.targets);
      }
      if (time_column >= 0 && time_column == label_column)
        fail_input("{}: column {} cannot be both the label and the time", name, time_column);
      table.features = columns - (options.targets > 0 ? options.targets : 1) - (time_column >= 0 ? 1 : 0);
      if (table.features < 1) {
        fail_input("{}:{}: {} columns leave no features beside the {}; check the separator and data.targets", name,
                   line_number, columns, options.targets > 0 ? "targets" : "label");
      }
      if (words) continue;
    } else {
      split_fields(line, separator, fields);
    }
    if (static_cast<int>(fields.size()) != columns) {
      fail_input("{}:{}: expected {} fields as in the lines before, found {}; correct the line", name, line_number,
                 columns, fields.size());
    }
    for (int column = 0; column < columns; ++column) {
      const std::string_view field = fields[static_cast<std::size_t>(column)];
      if (column == time_column) {
        table.times.push_back(time_of_field(field, name, line_number, column));
        continue;
      }
      const std::optional<float> number = to_number(field);
      if (!number) {
        fail_input("{}:{}: expected a finite number in column {}, found \"{}\"; correct or remove the line", name,
                   line_number, column, shown(field));
      }
      if (column == label_column) {
        if (*number < 0 || *number > 65535 || *number != std::floor(*number)) {
          fail_input(
              "{}:{}: expected a class label (0, 1, 2, ...) in column {}, found \"{}\"; name the label column, or "
              "set data.targets for numbers",
              name, line_number, column, shown(field));
        }
        table.labels.push_back(static_cast<int>(*number));
      } else if (options.targets > 0 && column >= columns - options.targets) {
        table.targets.push_back(*number);
      } else {
        table.values.push_back(*number);
      }
    }
    table.lines.push_back(line_number);
  }
  if (table.lines.empty()) fail_input("{}: expected rows of numbers, found none; check that the file is whole", name);
  return table;
}

std::unique_ptr<Dataset> open_csv(const std::filesystem::path& path, Split split, const ImageShape& shape,
                                  const CsvOptions& options) {
  std::error_code error;
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path, error)) {
    file = path / fmt::format("{}.csv", name_of(split));
  } else if (split == Split::test) {
    if (options.test_path.empty()) {
      fail_input("{}: one file has no test split; give a folder with train.csv and test.csv, or data.test_path",
                 path.string());
    }
    file = options.test_path;
  }
  const std::vector<std::byte> bytes = read_file(file);
  CsvTable table = parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string(), options);
  ImageShape filled = shape;
  if (shape == ImageShape{}) filled = {.channels = table.features, .height = 1, .width = 1};
  if (filled.elements() != table.features) {
    fail_input(
        "{}: {} feature columns cannot fill the model's input of {} ({} numbers); change model.input to [{}, 1, 1]",
        file.string(), table.features, to_string(filled), filled.elements(), table.features);
  }
  MemoryRowsContent content{.shape = filled, .target_width = std::max(options.targets, 0), .name = file.string()};
  if (!table.labels.empty()) content.classes = 1 + std::ranges::max(table.labels);
  content.values = std::move(table.values);
  content.labels = std::move(table.labels);
  content.targets = std::move(table.targets);
  content.times = std::move(table.times);
  content.lines = std::move(table.lines);
  return std::make_unique<MemoryRows>(std::move(content));
}

namespace {

const RegisterSource register_csv(
    {.name = "csv",
     .help = "rows of numbers",
     .position = 50,
     .fields = {path_field("folder with train.csv and test.csv, or the file to train on"),
                {.name = "label_column",
                 .kind = FieldKind::text,
                 .fallback = std::string(),
                 .help = "name or number (from 0; negative: from the end); empty: the last"},
                {.name = "targets",
                 .fallback = std::int64_t{0},
                 .minimum = 0,
                 .maximum = kLargestExtent,
                 .help = "no labels: the last so many columns are numbers to predict"},
                {.name = "time_column",
                 .kind = FieldKind::text,
                 .optional = true,
                 .help = "name or number of a column of times (numbers, or dates as 2024-02-29T23:59Z), which are no "
                         "features: data.shard \"time\" divides by them"},
                {.name = "test_path", .kind = FieldKind::text, .optional = true, .help = "the file to test on"}},
     .second_forms = {{"label_column", {.name = "label_column"}}, {"time_column", {.name = "time_column"}}},
     .paths = {"path", "test_path"},
     .time_field = "time_column",
     .only_on_host = "the rows of a csv are no bytes that a device could augment",
     .open = [](const DataSource& source, Split split) {
       const FieldValues& values = source.values;
       CsvOptions options{.label_column = values.text("label_column"),
                          .targets = static_cast<int>(values.integer("targets"))};
       if (values.has("time_column")) options.time_column = values.text("time_column");
       if (values.has("test_path")) options.test_path = values.text("test_path");
       return open_csv(values.text("path"), split, source.input, options);
     }});

}  // namespace

}  // namespace trifold
