#include "nn/data/image_grid.h"

#include <algorithm>
#include <string>

#include "runtime/support/error.h"

namespace ashlar::nn {

Tensor image_grid(const Tensor& images, int64_t columns, int64_t padding) {
  const bool has_channels = images.rank() == 4;
  const int64_t channels = has_channels ? images.size(1) : 1;
  if ((images.rank() != 3 && !has_channels) || images.numel() == 0 || (channels != 1 && channels != 3)) {
    throw ShapeError("image_grid", images.str(), "[n, h, w], [n, 1, h, w] or [n, 3, h, w], none of them 0",
                     "Pass a batch of images");
  }
  if (columns < 1 || padding < 0) {
    throw ValueError("image_grid", std::to_string(columns) + " columns, padding " + std::to_string(padding),
                     "at least one column and no negative padding", "Start with 8 columns");
  }
  const int64_t count = images.size(0), height = images.size(-2), width = images.size(-1);
  columns = std::min(columns, count);
  const int64_t rows = (count + columns - 1) / columns, down = height + padding, across = width + padding;
  Shape shape{rows * down + padding, columns * across + padding};
  if (channels == 3) shape.push_back(3);
  const Tensor sheet = Tensor::zeros(shape, images.dtype(), images.device());
  for (int64_t i = 0; i < count; i++) {
    const int64_t top = i / columns * down + padding, left = i % columns * across + padding;
    Tensor image = images[i];
    if (has_channels) image = channels == 3 ? image.permute({1, 2, 0}) : image[0];
    sheet.slice(0, top, top + height).slice(1, left, left + width).copy_(image);
  }
  return sheet;
}

}  // namespace ashlar::nn
