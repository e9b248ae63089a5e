// Calls the kernel of my_kernel.cpp like a built-in one, on every device of this machine, and differentiates it.
#include <cmath>
#include <cstdio>

#include "ashlar/ad/my_kernel.h"
#include "autograd/autograd.h"

int main() {
  using namespace ashlar;
  for (const Device device : Device::available()) {
    const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}, device);
    const Tensor gate = Tensor::from<float>({-2, -1, 0, 1, 2, 3}, {2, 3}, device);

    const Tensor y = gated_silu(x, gate);
    std::printf("%s:", device.str().c_str());
    for (const float value : y.to_vector<float>()) std::printf(" %.4f", value);

    const Var vx(x, true), vgate(gate, true);
    backward(ad::gated_silu(vx, vgate), {.seed = Tensor::ones({2, 3}, DType::f32, device)});
    std::printf("  d/dgate:");
    for (const float value : vgate.grad().to_vector<float>()) std::printf(" %.4f", value);
    std::printf("\n");

    // 6 · 3 · sigmoid(3) = 17.1463…, to f32
    if (std::abs(y.to_vector<float>()[5] - 17.14633f) > 1e-4f) return 1;
  }
}
