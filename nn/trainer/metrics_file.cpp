#include "nn/trainer/metrics_file.h"

#include <limits>

#include "runtime/support/error.h"

namespace ashlar::nn {

MetricsFile::MetricsFile(const std::filesystem::path& file) : file_(file), out_(file) {
  out_.precision(std::numeric_limits<float>::max_digits10);
  out_ << "epoch,learning_rate,train_loss,train_accuracy,test_loss,test_accuracy,seconds,samples_per_second\n"
       << std::flush;
  check();
}

void MetricsFile::write(const EpochMetrics& m) {
  out_ << m.epoch << ',' << m.learning_rate << ',' << m.train.loss << ',' << m.train.accuracy << ',' << m.test.loss
       << ',' << m.test.accuracy << ',' << m.seconds << ',' << m.samples_per_second << '\n'
       << std::flush;
  check();
}

void MetricsFile::check() const {
  if (out_) return;
  throw DataError("MetricsFile", file_.string() + ", which can't be written", "a file in a writable folder",
                  "Check the folder, its permissions and the free space");
}

}  // namespace ashlar::nn
