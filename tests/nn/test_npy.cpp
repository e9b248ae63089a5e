// NumPy's files: what NumPy wrote is read, what is written is what NumPy writes, and nothing damaged gets through.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "nn/data/file.h"
#include "nn/data/npy.h"
#include "nn/data/npz.h"
#include "runtime/support/error.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

/// A file of format 1.0, 2.0 or 3.0 with this dictionary.
std::vector<uint8_t> npy(const std::string& dictionary, const std::vector<uint8_t>& data, int version = 1) {
  std::string head = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  const std::string text = dictionary + "\n";
  for (int i = 0; i < (version == 1 ? 2 : 4); i++) head += static_cast<char>(text.size() >> 8 * i);
  head += text;
  std::vector<uint8_t> file(head.begin(), head.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

Tensor parse(const std::vector<uint8_t>& bytes) { return parse_npy(bytes, "test"); }

const std::filesystem::path seeds = ASHLAR_FUZZ_SEEDS;  // made by NumPy 1.24

TEST(Npy, ReadsEveryTypeAndFormat) {
  const struct {
    const char *little, *big;
    DType dtype;
  } types[] = {{"<f2", ">f2", DType::f16}, {"<f4", ">f4", DType::f32},    {"<f8", ">f8", DType::f64},
               {"|u1", "|u1", DType::u8},  {"<u2", ">u2", DType::u16},    {"<u4", ">u4", DType::u32},
               {"|i1", "|i1", DType::i8},  {"<i2", ">i2", DType::i16},    {"<i4", ">i4", DType::i32},
               {"<i8", ">i8", DType::i64}, {"|b1", "|b1", DType::boolean}};
  for (const auto& type : types) {
    const auto width = static_cast<size_t>(size_of(type.dtype));
    std::vector<uint8_t> data(2 * width);
    for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<uint8_t>(type.dtype == DType::boolean ? 1 : i + 1);
    const Tensor expected = parse(npy(dictionary(type.little, "(2,)"), data));
    EXPECT_EQ(expected.dtype(), type.dtype);
    EXPECT_EQ(std::memcmp(expected.data(), data.data(), data.size()), 0);
    for (const int version : {2, 3}) {
      EXPECT_EQ(parse(npy(dictionary(type.little, "(2,)"), data, version)).to_doubles(), expected.to_doubles());
    }
    for (size_t i = 0; i < data.size(); i += width) std::reverse(data.data() + i, data.data() + i + width);
    EXPECT_EQ(parse(npy(dictionary(type.big, "(2,)"), data)).to_doubles(), expected.to_doubles()) << type.big;
  }
}

TEST(Npy, ColumnsBecomeRows) {
  const std::vector<uint8_t> data{0, 3, 1, 4, 2, 5};
  const Tensor tensor = parse(npy(dictionary("|u1", "(2, 3)", "True"), data));
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.to_vector<uint8_t>(), (std::vector<uint8_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(parse(npy(dictionary("|u1", "(6,)", "True"), data)).to_vector<uint8_t>(), data);

  // Of three axes, against views.
  std::vector<uint8_t> columns(2 * 3 * 4 * 5);
  for (size_t i = 0; i < columns.size(); i++) columns[i] = static_cast<uint8_t>(i % 251);
  const Tensor expected = Tensor::from(columns, {5, 4, 3, 2}).permute({3, 2, 1, 0});
  EXPECT_EQ(parse(npy(dictionary("|u1", "(2, 3, 4, 5)", "True"), columns)).to_vector<uint8_t>(),
            expected.to_vector<uint8_t>());
  EXPECT_EQ(parse(npy(dictionary("<f4", "(2, 0)", "True"), {})).shape(), (Shape{2, 0}));
}

TEST(Npy, HeadersAreReadAsPythonReadsThem) {
  const std::vector<uint8_t> data{7, 8};
  for (const std::string header : {"{'shape': (2,), 'descr': '|u1', 'fortran_order': False}",
                                   "{\"descr\": \"<u1\", \"fortran_order\": False, \"shape\": (1, 2)}",
                                   "  {'descr':'=u1','fortran_order':False,'shape':(2L,1L)}   "}) {
    EXPECT_EQ(parse(npy(header, data)).to_vector<uint8_t>(), data) << header;
  }
  EXPECT_EQ(parse(npy(dictionary("|u1", "()"), {9})).shape(), Shape{});
  EXPECT_EQ(parse(npy(dictionary("<f8", "(0, 5)"), {})).shape(), (Shape{0, 5}));
  EXPECT_EQ(parse(npy(dictionary("<f8", "(9223372036854775807, 9223372036854775807, 0)"), {})).numel(), 0);
}

TEST(Npy, WhatItCannotHoldIsRefused) {
  const std::vector<uint8_t> data(8);
  for (const std::string& header :
       {dictionary("<c8", "(1,)"),
        dictionary("<U2", "(1,)"),
        dictionary("|O", "(1,)"),
        dictionary("<u8", "(1,)"),
        dictionary("|V8", "(1,)"),
        dictionary("", "(1,)"),
        dictionary("?u1", "(8,)"),
        dictionary("|u1", "(7,)"),
        dictionary("|u1", "(9,)"),
        dictionary("|u1", "(-8,)"),
        dictionary("|u1", "(8"),
        dictionary("|u1", "8"),
        dictionary("|u1", "(8 8)"),
        dictionary("|u1", "(8,)", "true"),
        dictionary("|u1", "(1,1,1,1,1,1,1,1,8)"),
        dictionary("<f8", "(4611686018427387904, 4)"),
        dictionary("|u1", "(99999999999999999999,)"),
        std::string("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
        std::string("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (8,)}"),
        std::string("{'descr': '|u1', 'shape': (8,)}"),
        std::string("{'name': '|u1'}"),
        dictionary("|u1", "(8,)") + "x",
        std::string()}) {
    EXPECT_THROW(parse(npy(header, data)), DataError) << header;
  }
  EXPECT_THROW(parse(npy(dictionary("|b1", "(8,)"), {0, 1, 2, 0, 0, 0, 0, 0})), DataError) << "no truth value";
  EXPECT_THROW(parse(npy(dictionary("|u1", "(8,)"), data, 4)), DataError) << "no such format";
  EXPECT_THROW(parse(npy(dictionary("|u1", "(8,)") + std::string(1 << 17, ' '), data, 2)), DataError);
  EXPECT_THROW(read_npy("/nowhere/a.npy"), DataError);
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::vector<uint8_t> file = read_bytes(seeds / "npy" / "floats.npy");
  EXPECT_EQ(parse(file).to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  for (size_t length = 0; length < file.size(); length++) {
    EXPECT_THROW(parse_npy(std::span(file).first(length), "test"), DataError) << "first " << length << " bytes";
  }
}

TEST(Npy, WritesWhatNumPyWrites) {
  const TemporaryFolder folder;
  for (const Device device : testing::usable_devices()) {
    const Tensor floats = Tensor::from({0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F}, {2, 3}, device);
    write_npy(folder / "floats.npy", floats);
    EXPECT_EQ(read_bytes(folder / "floats.npy"), read_bytes(seeds / "npy" / "floats.npy"));
    write_npy(folder / "transposed.npy", floats.transpose(0, 1));
    EXPECT_EQ(read_npy(folder / "transposed.npy").to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  }
  for (const Tensor& tensor : {Tensor::from({true, false}), Tensor::ones({}, DType::i64), Tensor::empty({0, 2}),
                               Tensor::ones({1, 2, 3}, DType::f16)}) {
    write_npy(folder / "a.npy", tensor);
    const Tensor read = read_npy(folder / "a.npy");
    EXPECT_EQ(read.str(), tensor.str());
    EXPECT_EQ(read.to_doubles(), tensor.to_doubles());
  }
  EXPECT_THROW(write_npy(folder / "b.npy", Tensor::ones({1}, DType::bf16)), DTypeError);
  EXPECT_THROW(write_npy(folder / "none" / "a.npy", Tensor::ones({1})), WriteError);
}

TEST(Npz, ReadsWhatNumPyWrote) {
  for (const char* name : {"plain.npz", "compressed.npz"}) {
    const auto arrays = read_npz(seeds / "npz" / name);
    ASSERT_EQ(arrays.size(), 3U);
    EXPECT_EQ(arrays[0].first, "weight");
    EXPECT_EQ(arrays[0].second.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(arrays[1].first, "folder/bias");
    EXPECT_EQ(arrays[1].second.to_vector<int64_t>(), (std::vector<int64_t>{-1, 7}));
    EXPECT_EQ(arrays[2].first, "zeros");
    EXPECT_EQ(arrays[2].second.shape(), (Shape{100, 10}));
  }
}

TEST(Npz, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  std::vector<std::pair<std::string, Tensor>> tensors{{"a", Tensor::arange(1000, DType::f32).reshape({10, 100})},
                                                      {"größe", Tensor::from<int64_t>({3})},
                                                      {"empty", Tensor::empty({0})}};
  for (const bool compressed : {false, true}) {
    write_npz(folder / "a.npz", tensors, compressed);
    const auto read = read_npz(folder / "a.npz");
    ASSERT_EQ(read.size(), 3U);
    for (size_t i = 0; i < 3; i++) {
      EXPECT_EQ(read[i].first, tensors[i].first);
      EXPECT_EQ(read[i].second.str(), tensors[i].second.str());
      EXPECT_EQ(read[i].second.to_doubles(), tensors[i].second.to_doubles());
    }
    const std::vector<uint8_t> first = read_bytes(folder / "a.npz");
    EXPECT_EQ(first.size() < 4000, compressed);
    write_npz(folder / "a.npz", tensors, compressed);
    EXPECT_EQ(read_bytes(folder / "a.npz"), first);
  }
  write_npz(folder / "none.npz", {});
  EXPECT_TRUE(read_npz(folder / "none.npz").empty());
}

TEST(Npz, NoDamageGetsThrough) {
  const std::vector<uint8_t> whole = read_bytes(seeds / "npz" / "compressed.npz");
  for (size_t length = 0; length < whole.size(); length++) {
    EXPECT_THROW(parse_npz(std::span(whole).first(length), "test"), DataError) << "first " << length << " bytes";
  }
  // A bit of the first member's packed bytes: minizip or the checksum sees it.
  for (size_t at = 60; at < 140; at++) {
    std::vector<uint8_t> bytes = whole;
    bytes[at] ^= 4;
    EXPECT_THROW(parse_npz(bytes, "test"), DataError) << "byte " << at;
  }
  EXPECT_THROW(read_npz(seeds / "npz" / "no_array.npz"), DataError) << "a member that is no .npy";
  EXPECT_THROW(read_npz(seeds / "npz" / "twice.npz"), DataError) << "a name that comes twice";
  EXPECT_THROW(read_npz(seeds / "npz" / "shared_bytes.npz"), DataError) << "members that share their bytes";
  EXPECT_THROW(read_npz("/nowhere/a.npz"), DataError);
}

TEST(Npz, NonsenseIsRefused) {
  const TemporaryFolder folder;
  const Tensor x = Tensor::ones({1});
  EXPECT_THROW(write_npz(folder / "a.npz", {{"", x}}), ValueError);
  EXPECT_THROW(write_npz(folder / "a.npz", {{"x", x}, {"x", x}}), ValueError);
  EXPECT_THROW(write_npz(folder / "a.npz", {{"x", x.to(DType::bf16)}}), DTypeError);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.npz"));
}

}  // namespace
}  // namespace ashlar::nn
