// Finds the PTX text in the fat binary that nvcc embeds in the host program.
#pragma once

#include <string>
#include <vector>

namespace gpusim {

struct PtxImage {
  int architecture = 0;  // 75 for sm_75
  std::string text;
};

// A compiled image, as it lies in the fat binary: an ELF file, perhaps packed.
struct CubinImage {
  int architecture = 0;
  std::string file;  // the ELF file
};

// All PTX images of the binary that __cudaRegisterFatBinary is given; throws std::runtime_error on what is not
// understood.
std::vector<PtxImage> ptx_images(const void* fat_binary_wrapper);

std::vector<CubinImage> cubin_images(const void* fat_binary_wrapper);

// The one the driver would compile for a device: the newest that the device can run. Null: there is none.
const PtxImage* best_image(const std::vector<PtxImage>& images, int compute_capability);

}  // namespace gpusim
