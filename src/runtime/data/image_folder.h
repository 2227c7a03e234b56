// Pictures in folders: <root>/<split>/<class>/*.{jpg,jpeg,png}. Only names are read on opening; a picture is decoded,
// scaled and cropped by whoever reads it, so the set may be larger than memory.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/data/dataset.h"

namespace trifold {

struct ImageFolderOptions {
  int resize_shorter_px = 0;  // scale the shorter side to this before the centre crop; 0: as little as the crop needs
  bool random_resized_crop = false;  // for training, a random part of the picture in place of the centre
  float least_area = 0.08f;          // the smallest such part
};

// `shape` is what every picture is brought to. A class is the place of its folder's name among the sorted names of the
// train split (which the test split must not add to).
std::unique_ptr<Dataset> open_image_folder(const std::filesystem::path& root, Split split, const ImageShape& shape,
                                           const ImageFolderOptions& options);

}  // namespace trifold
