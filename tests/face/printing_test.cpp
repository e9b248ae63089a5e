// std::cout << tensor
#include <cmath>
#include <sstream>

#include "ashlar/ashlar.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

template <class T>
std::string text(const T& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

class Printing : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Printing, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Printing, SaysWhatAndWhere) {
  const Tensor x = Tensor::from({1.F, 2.F, 3.F, 40.F}, {2, 2}, device());
  EXPECT_EQ(text(x), "f32[2, 2] on " + device().str() + "\n[[ 1.,  2.],\n [ 3., 40.]]");
  EXPECT_EQ(text(x.transpose(0, 1)[0]), "f32[2] on " + device().str() + "\n[1., 3.]");
}

TEST(PrintingOnHost, Numbers) {
  EXPECT_EQ(text(Tensor()), "undefined");
  EXPECT_EQ(text(Tensor::full({}, 2.5)), "f32[] on cpu\n2.5000");
  EXPECT_EQ(text(Tensor::from({1.5F, -NAN, INFINITY, -INFINITY})), "f32[4] on cpu\n[1.5000,    nan,    inf,   -inf]");
  EXPECT_EQ(text(Tensor::from({1e-6, 2.5})), "f64[2] on cpu\n[1.0000e-06, 2.5000e+00]");
  EXPECT_EQ(text(Tensor::from({0.F, 3e9F})), "f32[2] on cpu\n[0.0000e+00, 3.0000e+09]");
  EXPECT_EQ(text(Tensor::from({-1, 200})), "i32[2] on cpu\n[ -1, 200]");
  EXPECT_EQ(text(Tensor::from({INT64_MAX})), "i64[1] on cpu\n[9223372036854775807]");
  EXPECT_EQ(text(Tensor::from({true, false})), "bool[2] on cpu\n[ true, false]");
  EXPECT_EQ(text(Tensor::from({uint8_t{7}})), "u8[1] on cpu\n[7]");
  EXPECT_EQ(text(Tensor::from({1.5F}).to(DType::bf16)), "bf16[1] on cpu\n[1.5000]");
}

TEST(PrintingOnHost, Shapes) {
  EXPECT_EQ(text(Tensor::zeros({0, 3})), "f32[0, 3] on cpu\n[]");
  EXPECT_EQ(text(Tensor::arange(8).reshape({2, 2, 2})),
            "i64[2, 2, 2] on cpu\n[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
  // Long rows are broken, at the same place in each line.
  const std::string row = text(Tensor::full(60, 1.5));
  EXPECT_NE(row.find("1.5000,\n 1.5000"), std::string::npos) << row;
}

TEST_P(Printing, ShortensWhatIsLong) {
  const Tensor row = Tensor::arange(100000, {}, device());
  EXPECT_EQ(text(row), "i64[100000] on " + device().str() + "\n[    0,     1,     2, ..., 99997, 99998, 99999]");
  const Tensor matrix = Tensor::arange(40000, DType::f32, device()).reshape({200, 200});
  EXPECT_EQ(text(matrix), "f32[200, 200] on " + device().str() +
                              "\n[[    0.,     1.,     2., ...,   197.,   198.,   199.],"
                              "\n [  200.,   201.,   202., ...,   397.,   398.,   399.],"
                              "\n [  400.,   401.,   402., ...,   597.,   598.,   599.],"
                              "\n ...,"
                              "\n [39400., 39401., 39402., ..., 39597., 39598., 39599.],"
                              "\n [39600., 39601., 39602., ..., 39797., 39798., 39799.],"
                              "\n [39800., 39801., 39802., ..., 39997., 39998., 39999.]]");
  // Short axes are whole.
  EXPECT_EQ(text(matrix.reshape({20000, 2}).transpose(0, 1)),
            "f32[2, 20000] on " + device().str() +
                "\n[[    0.,     2.,     4., ..., 39994., 39996., 39998.],"
                "\n [    1.,     3.,     5., ..., 39995., 39997., 39999.]]");
}

TEST_P(Printing, OfAVar) {
  EXPECT_EQ(text(Var(Tensor::ones(2, DType::f32, device()), true)),
            "f32[2] on " + device().str() + "\n[1., 1.]\nrequires grad");
  EXPECT_EQ(text(Var()), "undefined");
}

}  // namespace
}  // namespace ashlar
