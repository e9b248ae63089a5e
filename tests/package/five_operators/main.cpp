// softmax(relu(x·w + b)) and the likeliest class: five operators (matmul, add, relu, softmax, argmax) on the CPU.
#include <cmath>
#include <cstdio>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"

int main() {
  using namespace ashlar;
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  const Tensor w = Tensor::from<float>({1, 0, -1, 0, 1, 1}, {2, 3});
  const Tensor b = Tensor::from<float>({0.5f, -0.25f, 0}, {3});

  // x·w = [1 2 1; 3 4 1];  plus b: [1.5 1.75 1; 3.5 3.75 1]
  const Tensor y = softmax(relu(matmul(x, w) + b));
  const std::vector<float> p = y.to_vector<float>();
  const std::vector<int64_t> likeliest = y.argmax(1).to_vector<int64_t>();
  std::printf("%.4f %.4f %.4f, class %d\n", p[0], p[1], p[2], static_cast<int>(likeliest[0]));

  const double exponentials[] = {std::exp(1.5), std::exp(1.75), std::exp(1.0)};
  const double total = exponentials[0] + exponentials[1] + exponentials[2];
  for (int i = 0; i < 3; i++) {
    if (std::abs(p[i] - exponentials[i] / total) > 1e-6) return 1;
  }
  return likeliest == std::vector<int64_t>{1, 1} ? 0 : 1;
}
