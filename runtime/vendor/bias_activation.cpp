#include "runtime/vendor/bias_activation.h"

#include <array>

#include "runtime/launch/launch.h"

namespace ashlar {

void bias_activation(const Tensor& sums, const Tensor& bias, Activation activation, const Tensor& y) {
  const KernelKey key{.elements = {y.dtype()}, .variant = static_cast<uint16_t>(activation)};
  launch(kernels::bias_activation, key, std::array{sums, bias}, {}, std::array{y});
}

}  // namespace ashlar
