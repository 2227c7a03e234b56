#include "runtime/data/csv.h"

#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;

TEST(Csv, TheLastColumnIsTheLabel) {
  const CsvTable table = parse_csv("1,2.5,0\n-3e-1,+4,7\n", "t", {});
  EXPECT_EQ(table.features, 2);
  EXPECT_EQ(table.values, (std::vector<float>{1, 2.5f, -0.3f, 4}));
  EXPECT_EQ(table.labels, (std::vector<int>{0, 7}));
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{1, 2}));
}

TEST(Csv, FindsHeaderSeparatorAndNamedLabel) {
  const CsvTable table =
      parse_csv("\xEF\xBB\xBF\"class\" ; a;b\r\n\r\n2;\"0.5\";1\r\n1;0.25;3", "t", {.label_column = "class"});
  EXPECT_EQ(table.values, (std::vector<float>{0.5f, 1, 0.25f, 3}));
  EXPECT_EQ(table.labels, (std::vector<int>{2, 1}));
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{3, 4}));
}

TEST(Csv, ALabelColumnMayBeAnIndex) {
  EXPECT_EQ(parse_csv("5,1\n", "t", {.label_column = "0"}).labels, std::vector<int>{5});
  EXPECT_EQ(parse_csv("5,1,2\n", "t", {.label_column = "-2"}).labels, std::vector<int>{1});
  EXPECT_SAYS(input_error([] { parse_csv("5,1\n", "t", {.label_column = "2"}); }), "0..1, found 2");
  EXPECT_SAYS(input_error([] { parse_csv("5,1\n", "t", {.label_column = "kind"}); }), "no column is called \"kind\"");
}

TEST(Csv, TheLastColumnsMayBeTargets) {
  const CsvTable table = parse_csv("1,2,0.5,-0.5\n3,4,1.5,2\n", "t", {.targets = 2});
  EXPECT_EQ(table.values, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(table.targets, (std::vector<float>{0.5f, -0.5f, 1.5f, 2}));
  EXPECT_TRUE(table.labels.empty());
}

TEST(Csv, SaysWhereItIsWrong) {
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\n1,0\n", "t.csv", {}); }), "t.csv:2: expected 3 fields");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\n1,x,0\n", "t.csv", {}); }),
              "t.csv:2: expected a finite number in column 1, found \"x\"");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\n1,,0\n", "t.csv", {}); }), "column 1, found \"\"");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\nnan,1,0\n", "t.csv", {}); }), "finite");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\n1e39,1,0\n", "t.csv", {}); }), "finite");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0.5\n", "t.csv", {}); }), "class label");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,-1\n", "t.csv", {}); }), "class label");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,1e9\n", "t.csv", {}); }), "class label");
  EXPECT_SAYS(input_error([] { parse_csv("a,b\n", "t.csv", {}); }), "found none");
  EXPECT_SAYS(input_error([] { parse_csv("", "t.csv", {}); }), "found none");
  EXPECT_SAYS(input_error([] { parse_csv("1\n2\n", "t.csv", {}); }), "no features");
  EXPECT_SAYS(input_error([] { parse_csv("1,2\n", "t.csv", {.targets = 2}); }), "no features");
  EXPECT_SAYS(input_error([] { parse_csv("1,2\n", "t.csv", {.label_column = "0", .targets = 1}); }), "not both");
}

TEST(Csv, ReadsTimes) {
  EXPECT_EQ(parse_time("12.5"), 12.5);
  EXPECT_EQ(parse_time("1970-01-02"), 86400);
  EXPECT_EQ(parse_time("2024-02-29 23:59"), 1709251140);
  EXPECT_EQ(parse_time("2024-02-29T23:59:30.5Z"), 1709251170.5);
  for (const char* wrong : {"", "x", "nan", "2023-02-29", "2024-13-01", "2024-1-1", "2024-02-29T", "2024-02-29T24:00",
                            "2024-02-29T12:00+02:00", "2024-02-29T12:00:00.", "-024-01-01"})
    EXPECT_EQ(parse_time(wrong), std::nullopt) << wrong;
}

TEST(Csv, ATimeColumnIsNoFeature) {
  const CsvTable table = parse_csv("2024-01-01,1,0\n2024-01-02,2,1\n", "t", {.time_column = "0"});
  EXPECT_EQ(table.features, 1);
  EXPECT_EQ(table.values, (std::vector<float>{1, 2}));
  EXPECT_EQ(table.labels, (std::vector<int>{0, 1}));
  EXPECT_EQ(table.times[1] - table.times[0], 86400);
  // The last column but the time is the label.
  EXPECT_EQ(parse_csv("1,0,5\n2,1,6\n", "t", {.time_column = "-1"}).labels, (std::vector<int>{0, 1}));
  EXPECT_EQ(parse_csv("x,t,y\n1,7,0.5\n", "t", {.time_column = "t", .targets = 1}).targets, std::vector<float>{0.5f});
  EXPECT_SAYS(input_error([] { parse_csv("t,x,y\nsoon,1,0\n", "t.csv", {.time_column = "t"}); }),
              "t.csv:2: expected a time in column 0");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\n", "t", {.time_column = "when"}); }), "no column is called \"when\"");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\n", "t", {.label_column = "0", .time_column = "0"}); }), "both");
  EXPECT_SAYS(input_error([] { parse_csv("1,2,0\n", "t", {.time_column = "2", .targets = 1}); }), "move it");
}

TEST(Csv, NoPrefixCrashes) {
  const std::string whole = "a;b;\"c\"\n1;2;3\n-1.5e3;\"2\";0\n";
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::vector<char> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    try {
      parse_csv({prefix.data(), prefix.size()}, "cut.csv", {});
    } catch (const Error& error) {
      EXPECT_SAYS(std::string(error.what()), "cut.csv");
    }
  }
}

TEST(Csv, FillsTheModelsInput) {
  const TemporaryFolder folder;
  folder.write("train.csv", "1,2,3,4,1\n");
  folder.write("test.csv", "5,6,7,8,0\n");
  const auto set = open_csv(folder.path(), Split::train, {1, 2, 2}, {});
  EXPECT_EQ(set->image_shape(), (ImageShape{1, 2, 2}));
  EXPECT_EQ(set->pixel_type(), PixelType::f32);
  EXPECT_EQ(set->classes(), 2);
  std::vector<float> values(4);
  set->read_pixels(0, nullptr, std::span(values));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(open_csv(folder.path(), Split::test, {}, {})->image_shape(), (ImageShape{4, 1, 1}));
  EXPECT_SAYS(input_error([&] { open_csv(folder.path(), Split::train, {1, 3, 3}, {}); }), "4 feature columns");
  const auto file = folder.path() / "train.csv";
  EXPECT_SAYS(input_error([&] { open_csv(file, Split::test, {}, {}); }), "no test split");
  EXPECT_EQ(open_csv(file, Split::test, {}, {.test_path = folder.path() / "test.csv"})->label(0), 0);
}

TEST(Csv, GivesTargets) {
  const TemporaryFolder folder;
  const auto set = open_csv(folder.write("t.csv", "1,2,0.5\n3,4,1.5\n"), Split::train, {}, {.targets = 1});
  EXPECT_EQ(set->classes(), 0);
  EXPECT_EQ(set->target_width(), 1);
  std::vector<float> target(1);
  set->read_targets(1, target);
  EXPECT_EQ(target[0], 1.5f);
}

}  // namespace
}  // namespace trifold
