#include "tools/train/images.h"

#include <sstream>

#include "ashlar/ops.h"

namespace ashlar::tools::train {

Images::Images(const std::string& folder)
    : data(nn::read_mnist_folder(folder)),
      test_labels(data.test.labels.to(DType::i64)),
      training({with_channel(data.train.images), data.train.labels.to(DType::i64)}) {}

std::string Images::description() const {
  std::ostringstream text;
  text << data.train.size() << " training and " << data.test.size() << " test images, " << data.classes << " classes";
  return text.str();
}

}  // namespace ashlar::tools::train
