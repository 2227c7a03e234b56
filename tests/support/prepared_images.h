// prepare_images on a backend against the loader's own Augmenter: the same bits.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/ops/prepare_images.h"

namespace trifold::test {

struct PreparationCase {
  std::string name;
  std::vector<Augmentation> augmentations;
};

std::vector<PreparationCase> preparation_cases();

// Prepares drawn bytes of odd extents on the backend, and expects what the Augmenter makes of them.
void expect_images_of_the_loader(const Backend& backend, Device& device, const PreparationCase& each);

void PrintTo(const PreparationCase& each, std::ostream* os);

}  // namespace trifold::test
