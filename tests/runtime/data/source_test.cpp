#include "runtime/data/source.h"

#include <algorithm>
#include <map>

#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;
using testing::to_bytes;

DataSource source_of(const std::string& type, const ImageShape& input, int classes,
                     const std::map<std::string, FieldValue>& values) {
  DataSource source{.type = type, .input = input, .classes = classes};
  for (const auto& [name, value] : values) source.values.set(name, value);
  complete(source);
  return source;
}

TEST(Source, OpensByType) {
  const DataSource source =
      source_of("synthetic", {1, 16, 16}, 4, {{"train_samples", std::int64_t{8}}, {"test_samples", std::int64_t{5}}});
  EXPECT_EQ(open_dataset(source, Split::train)->size(), 8);
  EXPECT_EQ(open_dataset(source, Split::test)->size(), 5);
}

TEST(Source, AnUnknownTypeListsTheKnownOnes) {
  const std::string said = input_error([] { open_dataset({.type = "mnist"}, Split::train); });
  for (const std::string& type : data_source_names()) EXPECT_SAYS(said, type);
  EXPECT_SAYS(said, "\"mnist\"");
}

TEST(Source, TypesAreListedInAFixedOrder) {
  std::vector<std::string> names = data_source_names();
  const std::vector<std::string> first = {"idx", "cifar10",   "cifar100",      "image_folder",
                                          "csv", "synthetic", "synthetic_rows"};
  std::erase_if(names, [&](const std::string& name) { return std::ranges::find(first, name) == first.end(); });
  EXPECT_EQ(names, first);
}

TEST(Source, EveryTypeExplainsItselfAndNamesOnlyItsFields) {
  for (const DataSourceType* type : data_source_types()) {
    SCOPED_TRACE(type->name);
    EXPECT_FALSE(type->help.empty());
    EXPECT_NE(type->open, nullptr);
    std::map<std::string, FieldKind> kinds;
    for (const Field& field : type->fields)
      EXPECT_TRUE(kinds.emplace(field.name, field.kind).second) << field.name << " is declared twice";
    for (const std::string& path : type->paths) {
      ASSERT_TRUE(kinds.contains(path)) << path;
      EXPECT_EQ(kinds[path], FieldKind::text) << path;
    }
    // A field that is called a path is one, so that it is found from any folder.
    for (const auto& [name, kind] : kinds)
      EXPECT_EQ(name.ends_with("path"), std::ranges::find(type->paths, name) != type->paths.end()) << name;
    for (const auto& [name, form] : type->second_forms) EXPECT_TRUE(kinds.contains(name)) << name;
    EXPECT_TRUE(type->time_field.empty() || kinds.contains(type->time_field)) << type->time_field;
  }
}

TEST(Source, ANameIsTakenOnce) {
  EXPECT_THROW(RegisterSource({.name = "idx", .help = "", .fields = {}}), Error);
}

TEST(Source, ChecksShapeAndLabelsAgainstTheModel) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", to_bytes({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 5, 6}));
  folder.write("train-labels-idx1-ubyte", to_bytes({0, 0, 8, 1, 0, 0, 0, 2, 2, 7}));
  DataSource source = source_of("idx", {1, 1, 1}, 8, {{"path", folder.path().string()}});
  EXPECT_EQ(open_dataset(source, Split::train)->size(), 2);
  source.classes = 7;
  const std::string said = input_error([&] { open_dataset(source, Split::train); });
  EXPECT_SAYS(said, "train-labels-idx1-ubyte: sample 1 has label 7, but the model has 7 classes");
  source.input = {1, 2, 2};
  EXPECT_SAYS(input_error([&] { open_dataset(source, Split::train); }),
              "images are 1x1x1, but the model's input is 1x2x2");
}

// Drawn images may have fewer classes than the model, and by default have as many.
TEST(Source, ItsDefaultsMayDependOnTheModel) {
  EXPECT_EQ(source_of("synthetic", {1, 16, 16}, 4, {}).values.integer("classes"), 4);
  EXPECT_EQ(source_of("synthetic", {1, 16, 16}, 4, {{"classes", std::int64_t{3}}}).values.integer("classes"), 3);
  try {
    source_of("synthetic", {1, 16, 16}, 4, {{"classes", std::int64_t{5}}});
    ADD_FAILURE() << "5 classes of data for a model of 4";
  } catch (const SourceError& error) {
    EXPECT_EQ(error.field, "classes");
    EXPECT_EQ(error.message, "the model has 4 classes, fewer than the 5 of its data");
  }
}

}  // namespace
}  // namespace trifold
