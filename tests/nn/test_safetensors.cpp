// safetensors: round trips, the exact bytes, and that nothing that breaks the format is accepted.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "nn/data/file.h"
#include "nn/safetensors.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "tests/nn/growth.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

std::vector<uint8_t> file_of(const std::string& header, size_t data_bytes) {
  std::vector<uint8_t> file(8 + header.size() + data_bytes);
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

SafetensorsFile parse(const std::vector<uint8_t>& bytes) { return parse_safetensors(bytes, "test"); }

std::vector<std::pair<std::string, Tensor>> some_tensors() {
  return {{"0.weight", Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3})},
          {"0.bias", Tensor::from(std::vector<Half>{Half(0.5F)}, {1})},
          {"empty", Tensor::empty({0, 4})},
          {"scalar", Tensor::from(std::vector<int64_t>{-7}, {})},
          {"mask", Tensor::from(std::vector<uint8_t>{1, 0, 9}, {3})}};
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  for (const Device device : testing::usable_devices()) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const auto& [name, tensor] : some_tensors()) tensors.emplace_back(name, tensor.to(device));
    tensors.emplace_back("transposed", tensors[0].second.transpose(0, 1));
    write_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}, {"note", "häh"}});
    const SafetensorsFile file = read_safetensors(folder / "a.safetensors");
    EXPECT_EQ(file.metadata, (Metadata{{"format", "pt"}, {"note", "häh"}}));
    ASSERT_EQ(file.tensors.size(), 6U);
    for (const auto& [name, tensor] : tensors) {
      const auto found = std::ranges::find(file.tensors, name, [](const auto& pair) { return pair.first; });
      ASSERT_NE(found, file.tensors.end()) << name;
      EXPECT_EQ(found->second.shape(), tensor.shape()) << name;
      EXPECT_EQ(found->second.dtype(), tensor.dtype()) << name;
      EXPECT_EQ(found->second.device(), Device::cpu());
    }
    EXPECT_EQ(file.tensors[0].second.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(file.tensors.back().second.to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  }
}

TEST(Safetensors, WritesTheFormat) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {{"x", Tensor::from(std::vector<float>{1.5F}, {1})}});
  std::vector<uint8_t> wanted = file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  )", 4);
  ASSERT_EQ((wanted.size() - 4) % 8, 0U) << "the data is aligned";
  wanted[wanted.size() - 2] = 0xc0;
  wanted[wanted.size() - 1] = 0x3f;
  EXPECT_EQ(read_bytes(folder / "a"), wanted);
}

TEST(Safetensors, AFailedWriteLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", some_tensors());
  const std::vector<uint8_t> before = read_bytes(folder / "a");
  const Tensor one = Tensor::ones({1});
  EXPECT_THROW(write_safetensors(folder / "a", {{"x", one}, {"x", one}}), ValueError);
  EXPECT_THROW(write_safetensors(folder / "a", {{"__metadata__", one}}), ValueError);
  EXPECT_THROW(write_safetensors(folder / "a", {{"\xff", one}}), ValueError);
  EXPECT_EQ(read_bytes(folder / "a"), before);
  EXPECT_THROW(write_safetensors(folder / "missing" / "a", {{"x", one}}), DataError);
  std::filesystem::create_directory(folder / "b");
  EXPECT_THROW(write_safetensors(folder / "b", {{"x", one}}), DataError) << "a folder stands in the way";
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) entries += entry.exists();
  EXPECT_EQ(entries, 2U) << "no temporary file stays behind";
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", some_tensors(), {{"format", "pt"}});
  const std::vector<uint8_t> file = read_bytes(folder / "a");
  for (size_t length = 0; length < file.size(); length++) {
    EXPECT_THROW(parse_safetensors(std::span(file).first(length), "test"), DataError) << "first " << length << " bytes";
  }
  std::vector<uint8_t> longer = file;
  longer.push_back(0);
  EXPECT_THROW(parse(longer), DataError);
}

TEST(Safetensors, HeadersThatBreakTheFormatAreErrors) {
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_EQ(parse(file_of(good, 8)).tensors.size(), 1U);
  ASSERT_EQ(parse(file_of("{}", 0)).tensors.size(), 0U);
  const std::string nested = std::string(200'000, '[');
  for (const std::string& header :
       {std::string(""),
        std::string("[]"),
        std::string(" {}"),
        std::string("{"),
        std::string("{}{}"),
        std::string(R"({"x":1})"),
        std::string(R"({"x":{}})"),
        std::string(R"({"x":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2,4611686018427387904,4],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2,1,1,1,1,1,1,1,1],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)") +
            R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
        std::string(R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
        std::string(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)") +
            R"("y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        std::string(R"({"__metadata__":{"a":1},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
        std::string(R"({"__metadata__":[],"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
        R"({"x":{"dtype":"F32","shape":)" + nested,
        R"({"x":{"dtype":"F32","shape":[)" + nested + std::string(200'000, ']') + R"(],"data_offsets":[0,8]}})",
        std::string("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}")}) {
    EXPECT_THROW(parse(file_of(header, 8)), DataError) << header.substr(0, 120);
  }
  std::vector<uint8_t> lying = file_of(good, 8);
  for (const uint64_t length : {uint64_t{63}, uint64_t{1} << 32, UINT64_MAX, UINT64_MAX - 7}) {
    std::memcpy(lying.data(), &length, 8);
    EXPECT_THROW(parse(lying), DataError) << length;
  }
  std::vector<uint8_t> truth = file_of(R"({"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  EXPECT_EQ(parse(truth).tensors.size(), 1U);
  truth.back() = 2;
  EXPECT_THROW(parse(truth), DataError);
}

TEST(Safetensors, DamagedFilesNeverCrash) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", some_tensors(), {{"format", "pt"}});
  const std::vector<uint8_t> good = read_bytes(folder / "a");
  std::mt19937 engine(13);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20'000; round++) {
    std::vector<uint8_t> file = good;
    const auto changes = 1 + engine() % 3;
    for (size_t i = 0; i < changes; i++) {
      switch (engine() % 4) {
        case 0:
          file[engine() % file.size()] = static_cast<uint8_t>(engine());
          break;
        case 1:
          file[8 + engine() % (file.size() - 8)] = "{}[]\",:0123456789-.eFI"[engine() % 22];
          break;
        case 2:
          file.resize(9 + engine() % (file.size() - 8));
          break;
        default:
          file.insert(file.begin() + static_cast<std::ptrdiff_t>(engine() % file.size()), '0');
          break;
      }
      if (file.size() < 16) file.resize(16);
    }
    try {
      parse(file);
      accepted++;
    } catch (const DataError&) {
      refused++;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 5'000);
}

TEST(Safetensors, AZeroByteDoesNotEndTheHeader) {
  std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header += '\0';
  EXPECT_THROW(parse(file_of(header + "left over", 8)), DataError);
  EXPECT_THROW(parse(file_of(header, 8)), DataError);
}

TEST(Safetensors, MessagesStayShort) {
  const std::string name(100'000, 'n'), digits(100'000, '7');
  for (const std::string& header :
       {"{\"" + name + "\":1}", "{\"" + name + "\":{\"dtype\":\"" + name + "\"}}", "{\"" + name,
        "{\"x\":{\"shape\":[" + digits + "]}}", "{\"x\":{\"shape\":[" + digits + "e" + digits + "]}}",
        "{\"__metadata__\":{\"" + name + "\":1}}",
        "{\"__metadata__\":{\"" + name + "\":\"\",\"" + name + "\":\"\"}}"}) {
    try {
      parse(file_of(header, 0));
      ADD_FAILURE() << header.substr(0, 100);
    } catch (const DataError& error) {
      EXPECT_LT(std::string(error.what()).size(), 600U) << error.what();
    }
  }
}

/// A valid file of so many tensors of one byte.
std::vector<uint8_t> many_tensors(size_t count) {
  std::string header = "{";
  for (size_t i = 0; i < count; i++) {
    header += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  return file_of(header + "}", count);
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; i++) all += text;
  return all;
}

void parse_whatever_comes(const std::vector<uint8_t>& file) {
  try {
    parse(file);
  } catch (const DataError&) {
  }
}

// Of eight times the input, linear time gives 1 and quadratic time 8; what a sanitizer and a busy machine add lies
// between.
constexpr double kMostGrowth = 5;

TEST(Safetensors, TimeGrowsWithTheFile) {
  EXPECT_LT(testing::time_growth(
                4'000, 8, [](size_t n) { return many_tensors(n); }, parse),
            kMostGrowth);
  const auto metadata = [](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; i++) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
    return file_of("{\"__metadata__\":{" + text + "}}", 0);
  };
  EXPECT_LT(testing::time_growth(10'000, 8, metadata, parse), kMostGrowth);
  for (const std::string piece : {"{},", "[", "{\"a\":", "\"a\":{},", "\\u0041"}) {
    const auto make = [&](size_t n) { return file_of("{\"a\":[" + repeated(piece, n) + "{}]}", 0); };
    EXPECT_LT(testing::time_growth(50'000, 8, make, parse_whatever_comes), kMostGrowth) << piece;
  }
}

TEST(Safetensors, WritingTakesTimeByTheTensor) {
  const TemporaryFolder folder;
  const auto make = [](size_t n) {
    const Tensor one = Tensor::ones({1});
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (size_t i = 0; i < n; i++) tensors.emplace_back("layer." + std::to_string(i) + ".weight", one);
    return tensors;
  };
  const auto write = [&](const auto& tensors) { write_safetensors(folder / "a", tensors); };
  EXPECT_LT(testing::time_growth(2'000, 8, make, write), kMostGrowth);
}

TEST(Safetensors, MemoryGrowsWithTheFile) {
  if (!testing::can_measure_memory()) GTEST_SKIP() << "not under a sanitizer, nor without /proc/self/clear_refs";
  constexpr size_t kBytes = 8'000'000;

  for (const std::string piece : {"[", "{\"a\":", "{},", "x", "\\n"}) {
    const std::vector<uint8_t> file = file_of("{\"" + repeated(piece, kBytes / piece.size()), 0);
    const std::vector<uint8_t> list = file_of("{\"a\":[" + repeated(piece, kBytes / piece.size()), 0);
    for (const auto& bytes : {file, list}) {
      const auto grown = static_cast<double>(testing::peak_growth([&] { parse_whatever_comes(bytes); }));
      EXPECT_LT(grown / kBytes, 10) << piece;
    }
  }
  const std::vector<uint8_t> tensors = many_tensors(100'000);
  const auto grown = static_cast<double>(testing::peak_growth([&] { parse(tensors); }));
  EXPECT_LT(grown / static_cast<double>(tensors.size()), 20) << "a tensor of one byte takes 256 and its bookkeeping";
}

TEST(Safetensors, ReadingAndWritingHoldOneCopyOfATensorAtMost) {
  if (!testing::can_measure_memory()) GTEST_SKIP() << "not under a sanitizer, nor without /proc/self/clear_refs";
  const TemporaryFolder folder;
  constexpr int64_t kSide = 1024, kBytes = kSide * kSide * 4;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int i = 0; i < 8; i++) {
    tensors.emplace_back(std::to_string(i), Tensor::full({kSide, kSide}, i).transpose(0, 1));
  }
  const Tensor warm = tensors[0].second.contiguous();  // threads and their stacks
  EXPECT_LT(testing::peak_growth([&] { write_safetensors(folder / "a", tensors); }), 2 * kBytes + kBytes / 2);
  tensors.clear();
  trim_memory(Device::cpu());
  EXPECT_LT(testing::peak_growth([&] { read_safetensors(folder / "a"); }), 9 * kBytes);
}

TEST(Safetensors, ASecondPlaceIsTried) {
  const TemporaryFolder folder;
  const std::filesystem::path missing = folder / "missing" / "a", other = folder / "b";
  EXPECT_EQ(write_safetensors(folder / "a", some_tensors(), {}, other), folder / "a");
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_EQ(write_safetensors(missing, some_tensors(), {}, other), other);
  EXPECT_EQ(read_bytes(other), read_bytes(folder / "a"));
  for (const std::filesystem::path& second : {std::filesystem::path(), folder / "nowhere" / "b"}) {
    try {
      write_safetensors(missing, some_tensors(), {}, second);
      ADD_FAILURE() << second;
    } catch (const WriteError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("still in memory"), std::string::npos) << said;
      EXPECT_NE(said.find(missing.string()), std::string::npos) << said;
      EXPECT_NE(said.find(second.string()), std::string::npos) << said;
    }
  }
  EXPECT_THROW(write_safetensors(folder / "a", {{"x", Tensor()}}), ValueError);
}

TEST(Safetensors, ReadsPipes) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", some_tensors());
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::vector<uint8_t> bytes = read_bytes(folder / "a");
    write_bytes(folder / "pipe", bytes);
    ::_exit(0);
  }
  EXPECT_EQ(read_safetensors(folder / "pipe").tensors.size(), some_tensors().size());
  ::waitpid(child, nullptr, 0);
  EXPECT_THROW(InputFile("test", folder / "pipe"), DataError) << "and doesn't wait for a writer";
}

}  // namespace
}  // namespace ashlar::nn
