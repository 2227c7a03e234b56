#include "runtime/data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "core/error.h"
#include "runtime/data/file_bytes.h"
#include "runtime/data/image.h"
#include "runtime/data/resample.h"
#include "runtime/data/source.h"

namespace trifold {

namespace {

namespace fs = std::filesystem;

struct Picture {
  std::string name;
  int label = 0;
};

class ImageFolder final : public Dataset {
 public:
  struct Content {
    fs::path root;  // the split's folder
    ImageShape shape;
    ImageFolderOptions options;
    std::vector<std::string> classes;
    std::vector<Picture> pictures;
  };
  explicit ImageFolder(Content content) : content_(std::move(content)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(content_.pictures.size()); }
  ImageShape image_shape() const override { return content_.shape; }
  int classes() const override { return static_cast<int>(content_.classes.size()); }
  std::string class_name(int label) const override {  // a model may have more classes than there are folders
    return label < classes() ? content_.classes[static_cast<std::size_t>(label)] : Dataset::class_name(label);
  }
  int label(std::int64_t index) const override { return picture(index).label; }
  std::string origin(std::int64_t index) const override { return path(index).string(); }

  using Dataset::read_pixels;
  void read_pixels(std::int64_t index, RandomSequence* random, std::span<std::uint8_t> out) const override {
    const fs::path file = path(index);
    const DecodedImage image = decode_image(read_file(file), file.string());
    const Box box = random && content_.options.random_resized_crop
                        ? random_box(image, content_.shape, content_.options.least_area, *random)
                        : centre_box(image, content_.shape, content_.options.resize_shorter_px);
    resample(image, box, content_.shape, out);
  }

 private:
  const Picture& picture(std::int64_t index) const { return content_.pictures[static_cast<std::size_t>(index)]; }
  fs::path path(std::int64_t index) const {
    const Picture& entry = picture(index);
    return content_.root / content_.classes[static_cast<std::size_t>(entry.label)] / entry.name;
  }

  Content content_;
};

bool is_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

// Sorted, because the order in which a file system lists names differs from machine to machine.
std::vector<std::string> sorted_names(const fs::path& folder, bool (*wanted)(const fs::directory_entry&)) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  while (!error && entries != fs::directory_iterator()) {
    if (wanted(*entries) && !is_hidden(entries->path())) names.push_back(entries->path().filename().string());
    entries.increment(error);
  }
  if (error) fail_input("{}: cannot be listed ({}); check data.path and permissions", folder.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names = sorted_names(folder, [](const fs::directory_entry& entry) {
    std::error_code error;
    return entry.is_directory(error);
  });
  if (names.empty()) fail_input("{}: expected one folder a class, found none; check data.path", folder.string());
  return names;
}

}  // namespace

std::unique_ptr<Dataset> open_image_folder(const fs::path& root, Split split, const ImageShape& shape,
                                           const ImageFolderOptions& options) {
  if ((shape.channels != 1 && shape.channels != 3) || shape.height < 1 || shape.width < 1) {
    fail_input("{}: pictures can fill an input of 1 or 3 channels, but the model's input is {}; change model.input",
               root.string(), to_string(shape));
  }
  if (options.resize_shorter_px != 0 && options.resize_shorter_px < std::max(shape.height, shape.width)) {
    fail_input("{}: pictures scaled to {} pixels cannot be cropped to {}; make the resize {} or more", root.string(),
               options.resize_shorter_px, to_string(shape), std::max(shape.height, shape.width));
  }
  if (!(options.least_area > 0 && options.least_area <= 1)) {
    fail_input("{}: the smallest area of a random crop is a share in (0, 1], not {}", root.string(),
               options.least_area);
  }
  const fs::path folder = root / name_of(split);
  const std::vector<std::string> present = class_names(folder);
  std::error_code error;
  const fs::path train = root / name_of(Split::train);
  const bool has_train = fs::is_directory(train, error);

  ImageFolder::Content content{.root = folder,
                               .shape = shape,
                               .options = options,
                               .classes = has_train && split != Split::train ? class_names(train) : present,
                               .pictures = {}};
  for (const std::string& name : present) {
    const auto found = std::lower_bound(content.classes.begin(), content.classes.end(), name);
    if (found == content.classes.end() || *found != name) {
      fail_input("{}: class \"{}\" is not among the {} classes of {}; add it there or remove it here",
                 (folder / name).string(), name, content.classes.size(), train.string());
    }
    const int label = static_cast<int>(found - content.classes.begin());
    std::vector<std::string> names =
        sorted_names(folder / name, [](const fs::directory_entry& entry) { return is_picture(entry.path()); });
    if (names.empty()) {
      fail_input("{}: expected .jpg, .jpeg or .png files, found none; add some or remove the folder",
                 (folder / name).string());
    }
    for (std::string& file : names) content.pictures.push_back({.name = std::move(file), .label = label});
  }
  return std::make_unique<ImageFolder>(std::move(content));
}

namespace {

const RegisterSource register_image_folder(
    {.name = "image_folder",
     .help = "JPEG and PNG files",
     .position = 40,
     .fields = {path_field("folder with train/<class>/*.jpg and test/<class>/*.jpg"),
                {.name = "resize",
                 .fallback = std::int64_t{0},
                 .minimum = 0,
                 .maximum = kLargestExtent,
                 .help = "shorter side before the centre crop; 0: as little as it needs"},
                {.name = "random_resized_crop",
                 .kind = FieldKind::boolean,
                 .fallback = false,
                 .help = "train on a random part of the picture"},
                {.name = "least_area",
                 .kind = FieldKind::number,
                 .fallback = 0.08,
                 .minimum = 0.001,
                 .maximum = 1,
                 .help = "the smallest such part"}},
     .paths = {"path"},
     .open = [](const DataSource& source, Split split) {
       const FieldValues& values = source.values;
       return open_image_folder(values.text("path"), split, source.input,
                                {.resize_shorter_px = static_cast<int>(values.integer("resize")),
                                 .random_resized_crop = values.boolean("random_resized_crop"),
                                 .least_area = static_cast<float>(values.number("least_area"))});
     }});

}  // namespace

}  // namespace trifold
