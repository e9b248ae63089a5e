// Scalars as TensorBoard reads them (`tensorboard --logdir FOLDER`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ashlar::nn {

/// Writes a new event file into a folder: TFRecords (tensorflow/core/lib/io/record_writer.h) of Event messages
/// (tensorflow/core/util/event.proto). A folder may hold several; TensorBoard shows them as one run, and forgets of
/// older ones what a file that goes on from a step says anew.
class EventFile {
 public:
  /// Makes the folder where there is none. A training that was interrupted goes on at `first_step`. Throws DataError
  /// where the folder can't be made or written to.
  explicit EventFile(const std::filesystem::path& folder, int64_t first_step = 0);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// One point of each of the curves; on disk at return. Throws DataError when the disk refuses.
  void write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  const std::filesystem::path& file() const { return file_; }

 private:
  void record(std::string_view event);
  void check();
  std::filesystem::path file_;
  std::ofstream out_;
};

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4): of "123456789" 0xe3069283.
uint32_t crc32c(std::string_view bytes);

}  // namespace ashlar::nn
