// In which dtype operands meet, against what PyTorch 1.13 says (torch.result_type of every pair, written out).
#include <map>
#include <string>

#include "ashlar/ashlar.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

constexpr int kNames = 10;
const char* const kDtypes[kNames] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};

// Rows: the first operand. Columns: the second, in the same order.
using Table = const char* const[kNames][kNames];

// Both with dimensions, or both of rank 0.
constexpr Table kAlike = {
    {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"},         // bool
    {"u8", "u8", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"},          // u8
    {"i8", "i16", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"},          // i8
    {"i16", "i16", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"},        // i16
    {"i32", "i32", "i32", "i32", "i32", "i64", "f16", "bf16", "f32", "f64"},        // i32
    {"i64", "i64", "i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64"},        // i64
    {"f16", "f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64"},         // f16
    {"bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32", "f64"},  // bf16
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64"},         // f32
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},         // f64
};

// The first with dimensions, the second of rank 0.
constexpr Table kBesideRank0 = {
    {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"},            // bool
    {"u8", "u8", "u8", "u8", "u8", "u8", "f16", "bf16", "f32", "f64"},                 // u8
    {"i8", "i8", "i8", "i8", "i8", "i8", "f16", "bf16", "f32", "f64"},                 // i8
    {"i16", "i16", "i16", "i16", "i16", "i16", "f16", "bf16", "f32", "f64"},           // i16
    {"i32", "i32", "i32", "i32", "i32", "i32", "f16", "bf16", "f32", "f64"},           // i32
    {"i64", "i64", "i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64"},           // i64
    {"f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16"},            // f16
    {"bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"},  // bf16
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"},            // f32
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},            // f64
};

// Beside the numbers true, 1 and 1.5.
constexpr const char* kBesideNumbers[kNames][3] = {
    {"bool", "i64", "f32"}, {"u8", "u8", "f32"},   {"i8", "i8", "f32"},   {"i16", "i16", "f32"},
    {"i32", "i32", "f32"},  {"i64", "i64", "f32"}, {"f16", "f16", "f16"}, {"bf16", "bf16", "bf16"},
    {"f32", "f32", "f32"},  {"f64", "f64", "f64"},
};

/// The dtypes of the tables that the library has.
std::map<int, DType> known_dtypes() {
  std::map<int, DType> known;
  for (int i = 0; i < kDTypes; i++) {
    for (int name = 0; name < kNames; name++) {
      if (name_of(static_cast<DType>(i)) == kDtypes[name]) known[name] = static_cast<DType>(i);
    }
  }
  return known;
}

TEST(Promotion, OfEveryPair) {
  EXPECT_GE(known_dtypes().size(), 8U);
  for (const auto& [i, a] : known_dtypes()) {
    for (const auto& [j, b] : known_dtypes()) {
      const Tensor row = Tensor::zeros(1, a), other_row = Tensor::zeros(1, b);
      const Tensor one = Tensor::zeros({}, a), other_one = Tensor::zeros({}, b);
      // u8 beside i8 needs i16, where there is one.
      const bool is_there = std::string(kAlike[i][j]) != "i16" || known_dtypes().count(3) > 0;
      if (is_there) {
        EXPECT_EQ(name_of(result_type(row, other_row)), kAlike[i][j]) << kDtypes[i] << " " << kDtypes[j];
        EXPECT_EQ(name_of(result_type(one, other_one)), kAlike[i][j]) << kDtypes[i] << " " << kDtypes[j];
        EXPECT_EQ(name_of(promote(a, b)), kAlike[i][j]);
      }
      EXPECT_EQ(name_of(result_type(row, other_one)), kBesideRank0[i][j]) << kDtypes[i] << " " << kDtypes[j];
      EXPECT_EQ(name_of(result_type(other_one, row)), kBesideRank0[i][j]) << kDtypes[i] << " " << kDtypes[j];
    }
    const char* const* numbers = kBesideNumbers[i];
    for (const Tensor& x : {Tensor::zeros(1, a), Tensor::zeros({}, a)}) {
      EXPECT_EQ(name_of(result_type(x, true)), numbers[0]);
      EXPECT_EQ(name_of(result_type(x, 1)), numbers[1]);
      EXPECT_EQ(name_of(result_type(x, int64_t{1})), numbers[1]);
      EXPECT_EQ(name_of(result_type(x, 1.5)), numbers[2]);
      EXPECT_EQ(name_of(result_type(x, 1.5F)), numbers[2]);
    }
  }
}

TEST(Promotion, OfThree) {
  const Tensor tensors[] = {Tensor::zeros(2, DType::u8), Tensor::zeros({}, DType::i64), Tensor::zeros({}, DType::f16)};
  EXPECT_EQ(result_type(tensors), DType::f16);
  EXPECT_EQ(result_type(std::span(tensors).first(2)), DType::u8);
  testing::expect_error<ValueError>([] { result_type(std::span<const Tensor>{}); }, {"result_type", "at least one"});
  testing::expect_error<ValueError>([&] { result_type(tensors[0], Tensor()); }, {"result_type", "undefined"});
}

TEST(Promotion, WhatMayBeWrittenInPlace) {
  for (const auto& [i, from] : known_dtypes()) {
    for (const auto& [j, to] : known_dtypes()) {
      const auto category = [](int name) { return name == 0 ? 0 : name < 6 ? 1 : 2; };
      EXPECT_EQ(can_cast(from, to), category(i) <= category(j)) << kDtypes[i] << " to " << kDtypes[j];
    }
  }
}

class PromotionOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, PromotionOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

// The operators give what the table says, and the right numbers.
TEST_P(PromotionOnDevice, OperatorsOfEveryPair) {
  for (const auto& [i, a] : known_dtypes()) {
    for (const auto& [j, b] : known_dtypes()) {
      if (std::string(kAlike[i][j]) == "i16" && known_dtypes().count(3) == 0) continue;
      const double x[] = {0, 1, 1}, y[] = {1, 1, 0};
      const bool is_bool = std::string(kAlike[i][j]) == "bool";
      const Tensor left = Tensor::from({0.F, 1.F, 1.F}, device()).to(a),
                   right = Tensor::from({1.F, 1.F, 0.F}, device()).to(b);
      const std::string names = std::string(kDtypes[i]) + " " + kDtypes[j];
      const Tensor sum = left + right, product = left * right, larger = maximum(left, right), less = left < right;
      EXPECT_EQ(name_of(sum.dtype()), kAlike[i][j]) << names;
      EXPECT_EQ(name_of(product.dtype()), kAlike[i][j]) << names;
      EXPECT_EQ(name_of(larger.dtype()), kAlike[i][j]) << names;
      EXPECT_EQ(less.dtype(), DType::boolean) << names;
      const Tensor quotient = right / (left * 2 + right);
      EXPECT_EQ(quotient.dtype(), is_floating(sum.dtype()) ? sum.dtype() : DType::f32) << names;
      std::vector<double> sums, products, largest, lesser;
      for (int k = 0; k < 3; k++) {
        sums.push_back(is_bool ? x[k] + y[k] != 0 : x[k] + y[k]);
        products.push_back(x[k] * y[k]);
        largest.push_back(std::max(x[k], y[k]));
        lesser.push_back(x[k] < y[k]);
      }
      EXPECT_EQ(sum.to_doubles(), sums) << names;
      EXPECT_EQ(product.to_doubles(), products) << names;
      EXPECT_EQ(larger.to_doubles(), largest) << names;
      EXPECT_EQ(less.to_doubles(), lesser) << names;
      EXPECT_NEAR(quotient.to_doubles()[1], 1.0 / 3, 2e-3) << names;
    }
  }
}

TEST_P(PromotionOnDevice, IntegersAreExact) {
  const int64_t big = (int64_t{1} << 62) + 1;
  const Tensor x = Tensor::from({big, int64_t{-7}}, device());
  EXPECT_EQ((x + 2).to_vector<int64_t>(), (std::vector<int64_t>{big + 2, -5}));
  EXPECT_EQ((x - big).to_vector<int64_t>(), (std::vector<int64_t>{0, -7 - big}));
  EXPECT_EQ((x == big).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ((big - 1 < x).to_vector<bool>(), (std::vector<bool>{true, false}));
  // As in C, 32 bits wrap.
  const Tensor y = Tensor::from({INT32_MAX, 3}, device());
  EXPECT_EQ((y + 1).to_vector<int32_t>(), (std::vector<int32_t>{INT32_MIN, 4}));
  EXPECT_EQ((y * y).to_vector<int32_t>(), (std::vector<int32_t>{1, 9}));
  EXPECT_EQ((-y).to_vector<int32_t>(), (std::vector<int32_t>{-INT32_MAX, -3}));
  const Tensor bytes = Tensor::from({uint8_t{200}, uint8_t{3}}, device());
  EXPECT_EQ((bytes + bytes).to_vector<uint8_t>(), (std::vector<uint8_t>{144, 6}));
  EXPECT_EQ((bytes / 2).to_vector<float>(), (std::vector<float>{100, 1.5F}));
}

TEST_P(PromotionOnDevice, SixteenBitsMeetANumberInF32) {
  // 1/1024 isn't rounded to bf16 before it is added; the sum is rounded once.
  const Tensor x = Tensor::full(1, 256, DType::bf16, device());
  EXPECT_EQ((x * 1.00390625).to_doubles(), (std::vector<double>{256}));
  EXPECT_EQ((x + 1.5).to_doubles(), (std::vector<double>{258}));
  EXPECT_EQ((x + 1.5).dtype(), DType::bf16);
}

}  // namespace
}  // namespace ashlar
