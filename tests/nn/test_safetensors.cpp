// safetensors: round trips, the exact bytes, and that nothing that breaks the format is accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "nn/safetensors.h"
#include "runtime/error.h"
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

}  // namespace
}  // namespace ashlar::nn
