// Readers of data take time and memory in proportion to what they read, whatever it claims to be.
#include <gtest/gtest.h>

#include <filesystem>

#include "nn/data/csv.h"
#include "nn/data/jpeg.h"
#include "nn/data/npz.h"
#include "nn/data/png.h"
#include "nn/data/text.h"
#include "runtime/support/error.h"
#include "tests/nn/growth.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;

constexpr double kMostGrowth = 5;  // of eight times the size: about 1 is linear, 8 quadratic

std::string repeated(const std::string& piece, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i++) text += piece;
  return text;
}

CsvTable parse(const std::string& text, const CsvOptions& options = {.has_header = false}) {
  return parse_csv({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "test", options);
}

TEST(DataGrowth, TablesAreLinear) {
  const auto rows = [](size_t count) { return repeated("1.5,2,-3\n", count); };
  EXPECT_LT(testing::time_growth(2'000, 8, rows, [](const auto& text) { parse(text); }), kMostGrowth);
  const auto columns = [](size_t count) { return repeated("7,", count) + "7"; };
  EXPECT_LT(testing::time_growth(2'000, 8, columns, [](const auto& text) { parse(text); }), kMostGrowth);
  const auto words = [](size_t count) {
    std::string text;
    for (size_t i = 0; i < count; i++) text += "\"word " + std::to_string(i) + "\"\n";
    return text;
  };
  const CsvOptions categorical{.has_header = false, .categorical = {"0"}};
  EXPECT_LT(testing::time_growth(2'000, 8, words, [&](const auto& text) { parse(text, categorical); }), kMostGrowth);
  const auto one_field = [](size_t count) { return "\"" + repeated("a\n\"\"", count); };
  EXPECT_LT(testing::time_growth(5'000, 8, one_field, [](const auto& text) { EXPECT_THROW(parse(text), DataError); }),
            kMostGrowth);
}

TEST(DataGrowth, TextIsLinear) {
  const auto make = [](size_t count) { return repeated("grün ", count); };
  EXPECT_LT(testing::time_growth(2'000, 8, make,
                                 [](const auto& text) {
                                   const CharVocabulary vocabulary(text);
                                   EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
                                 }),
            kMostGrowth);
}

TEST(DataGrowth, ArchivesAreLinear) {
  const TemporaryFolder folder;
  const auto make = [&](size_t count) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (size_t i = 0; i < count; i++) tensors.emplace_back(std::to_string(i), Tensor::ones({3}));
    write_npz(folder / "many.npz", tensors);
    return read_bytes(folder / "many.npz");
  };
  EXPECT_LT(testing::time_growth(50, 8, make, [](const auto& bytes) { parse_npz(bytes, "test"); }), kMostGrowth);
}

TEST(DataGrowth, MemoryFollowsTheFile) {
  if (!testing::can_measure_memory()) GTEST_SKIP() << "no measure of memory";
  const std::filesystem::path seeds = ASHLAR_FUZZ_SEEDS;
  const auto refuse = [&](auto read, const std::filesystem::path& file) {
    const int64_t grown = testing::peak_growth([&] { EXPECT_THROW(read(seeds / file), DataError) << file; });
    EXPECT_LT(grown, 4 << 20) << file;
  };
  refuse(read_png, "png/size_lies");
  refuse(read_jpeg, "jpeg/size_lies.jpg");
  refuse(read_npz, "npz/shared_bytes.npz");
  const std::string text = repeated("1,2\n", 1'000'000);
  EXPECT_LT(static_cast<double>(testing::peak_growth([&] { parse(text); })), 8.0 * static_cast<double>(text.size()));
}

}  // namespace
}  // namespace ashlar::nn
