// schedules/tuned/<code target>/<device>.json: which tunables one device runs quickest. Written by ashlar-tune, read by
// the generators; no Halide here, since both halves include it.
//
//   {
//    "device": "NVIDIA H200",
//    "family": "9.0",
//    "kernels": {
//     "matmul": {
//      "f32_none": [
//       {"sizes": [1, 512, 512, 512], "tunables": {"tile_rows": 128}, "microseconds": 12.3, "of_default": 0.812},
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ashlar::dsl {

/// One measured call. `tunables` are those that aren't at their default, by name; none: the default is quickest.
struct TunedPoint {
  std::vector<int64_t> sizes;  ///< FormSignature::sizes of the kernel's form
  std::map<std::string, std::string> tunables;
  double microseconds = 0;
  double of_default = 1;  ///< its time over the default's
};

/// In place of an instance, the points of what a form or an operator written by hand chooses itself, for all element
/// types: sizes are FormSignature::plan_sizes, and the only tunable is "plan".
inline constexpr const char* kAnyInstance = "any";

struct TunedTable {
  std::string device;  ///< DeviceIdentity::name
  std::string family;  ///< DeviceIdentity::family
  /// kernel → instance ("f32_none") → points, sorted by sizes
  std::map<std::string, std::map<std::string, std::vector<TunedPoint>>> kernels;
  std::filesystem::path file = {};  ///< where it was read, for messages
};

/// Throws DataError that names the file and the rule it breaks.
TunedTable read_tuned_table(const std::filesystem::path& file);
/// All tables of a folder, in the order of their names; none where the folder isn't there.
std::vector<TunedTable> read_tuned_tables(const std::filesystem::path& folder);
/// One point a line, everything sorted, so that a difference shows what changed. Throws DataError.
void write_tuned_table(const TunedTable& table, const std::filesystem::path& file);
/// One instance's points as they stand in the file.
std::string text_of(const std::vector<TunedPoint>& points);

/// The point that decides for each class of sizes (half_octaves of runtime/launch/kernel.h): the one that saves most of
/// those with tunables. They point into `points`.
std::map<uint64_t, const TunedPoint*> deciding_points(const std::vector<TunedPoint>& points);

/// "nvidia_h200.json" for "NVIDIA H200"
std::string table_file_name(const std::string& device);

}  // namespace ashlar::dsl
