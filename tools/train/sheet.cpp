#include "tools/train/sheet.h"

#include <iostream>

#include "nn/data/file.h"
#include "nn/data/image_grid.h"
#include "nn/data/png.h"

namespace ashlar::tools::train {

void add_sheet(CLI::App& command, std::string& file) {
  command.add_option("--sheet", file, "PNG file for images that the network draws at the end")->capture_default_str();
}

void check_sheet(const std::string& file) { nn::check_writable("--sheet", file); }

void write_sheet(const std::string& file, const Tensor& images) {
  nn::write_png(file, nn::image_grid(images, kSheetColumns));
  std::cout << "images in " << file << "\n";
}

}  // namespace ashlar::tools::train
