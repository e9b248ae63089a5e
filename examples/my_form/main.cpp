// Points on a line, their squared distances, and a similarity with its gradient.
#include <cmath>
#include <cstdio>

#include "ashlar/ad/distances.h"
#include "autograd/autograd.h"

int main() {
  using namespace ashlar;
  for (const Device device : Device::available()) {
    const Tensor a = Tensor::from<float>({0, 1, 2, 3}, {2, 2}, device);
    const Tensor b = Tensor::from<float>({0, 0, 1, 1, 2, 2}, {3, 2}, device);

    const Tensor d = squared_distances(a, b);
    std::printf("%s:", device.str().c_str());
    for (const float value : d.to_vector<float>()) std::printf(" %g", value);

    const Var va(a, true);
    backward(ad::gaussian_kernel(va, b, 0.5), {.seed = Tensor::ones({2, 3}, DType::f32, device)});
    std::printf("  gradient:");
    for (const float value : va.grad().to_vector<float>()) std::printf(" %.4f", value);
    std::printf("\n");

    // (2, 3) is at 1² + 2² from (1, 1)
    if (d.to_vector<float>()[4] != 5) return 1;
  }
}
