#include "runtime/data/source.h"

#include "runtime/data/temporary_folder.h"

namespace trifold {
namespace {

using testing::input_error;
using testing::TemporaryFolder;
using testing::to_bytes;

TEST(Source, OpensByType) {
  const DataSource source{.type = "synthetic",
                          .input = {1, 16, 16},
                          .classes = 4,
                          .seed = 3,
                          .synthetic = {.train_samples = 8, .test_samples = 5}};
  EXPECT_EQ(open_dataset(source, Split::train)->size(), 8);
  EXPECT_EQ(open_dataset(source, Split::test)->size(), 5);
}

TEST(Source, AnUnknownTypeListsTheKnownOnes) {
  const std::string said = input_error([] { open_dataset({.type = "mnist"}, Split::train); });
  for (const std::string& type : data_source_types()) EXPECT_SAYS(said, type);
  EXPECT_SAYS(said, "\"mnist\"");
}

TEST(Source, ChecksShapeAndLabelsAgainstTheModel) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", to_bytes({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 5, 6}));
  folder.write("train-labels-idx1-ubyte", to_bytes({0, 0, 8, 1, 0, 0, 0, 2, 2, 7}));
  DataSource source{.type = "idx", .path = folder.path(), .input = {1, 1, 1}, .classes = 8};
  EXPECT_EQ(open_dataset(source, Split::train)->size(), 2);
  source.classes = 7;
  const std::string said = input_error([&] { open_dataset(source, Split::train); });
  EXPECT_SAYS(said, "train-labels-idx1-ubyte: sample 1 has label 7, but the model has 7 classes");
  source.input = {1, 2, 2};
  EXPECT_SAYS(input_error([&] { open_dataset(source, Split::train); }),
              "images are 1x1x1, but the model's input is 1x2x2");
}

}  // namespace
}  // namespace trifold
