// The five operators of main.cpp in a program that links f32 instances alone: a call in another dtype says so.
#include <cstdio>
#include <string>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"

int main() {
  using namespace ashlar;
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  const Tensor w = Tensor::from<float>({1, 0, -1, 0, 1, 1}, {2, 3});
  const Tensor b = Tensor::from<float>({0.5f, -0.25f, 0}, {3});
  const Tensor y = softmax(relu(matmul(x, w) + b));
  if (y.argmax(1).to_vector<int64_t>() != std::vector<int64_t>{1, 1}) return 1;

  // Integers and bool are there in every program.
  if ((y == y).to_vector<bool>() != std::vector<bool>(6, true)) return 1;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    try {
      relu(Tensor::empty({3}, dtype));
      return 1;
    } catch (const MissingKernel& error) {
      std::puts(error.what());
      if (dtype != DType::f64 && std::string(error.what()).find("ASHLAR_DTYPES") == std::string::npos) return 1;
    }
  }
  return 0;
}
