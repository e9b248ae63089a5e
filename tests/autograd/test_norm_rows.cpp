// Normalised rows and groups, and their gradients, of which a device reads each row once, whatever it makes of their
// length: beside the CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "runtime/tensor/random.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

class NormRows : public testing::OnDevice {
 protected:
  using Norm = std::function<Var(const Var& x, const Var& weight, const Var& bias)>;

  /// y and the gradients of x, weight and bias, all in f32.
  static std::vector<std::vector<double>> results(const Shape& shape, int64_t channels, const Norm& norm,
                                                  const Device& device) {
    Random random(7);
    const auto drawn = [&](const Shape& of) { return Tensor::randn(of, random).to(device); };
    const Var x(drawn(shape), true), weight(drawn({channels}), true), bias(drawn({channels}), true);
    const Var y = norm(x, weight, bias);
    std::vector<std::vector<double>> all{y.value().to_doubles()};
    for (const Var& gradient : grad({y}, {x, weight, bias}, {Var(drawn(shape))})) {
      all.push_back(gradient.value().to_doubles());
    }
    return all;
  }

  void expect_as_on_the_cpu(const std::string& what, const Shape& shape, int64_t channels, const Norm& norm) {
    const auto own = results(shape, channels, norm, device()), exact = results(shape, channels, norm, Device::cpu());
    for (size_t i = 0; i < exact.size(); i++) {
      double largest = 0;
      for (const double value : exact[i]) largest = std::max(largest, std::abs(value));
      for (size_t j = 0; j < exact[i].size(); j++) {
        ASSERT_NEAR(own[i][j], exact[i][j], 2e-5 * largest)
            << what << " of " << shape.str() << ", result " << i << ", element " << j;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, NormRows, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(NormRows, OfEveryLength) {
  for (const int64_t columns : {5, 127, 701, 1022, 2047, 4099, 8190, 8193, 9001, 12286, 12288, 16381, 16384, 16390}) {
    const Shape shape{columns < 5000 ? 41 : 19, columns};
    expect_as_on_the_cpu("layer_norm", shape, columns, [](const Var& x, const Var& weight, const Var& bias) {
      return ad::layer_norm(x, weight, bias).y;
    });
  }
}

TEST_P(NormRows, OfGroups) {
  struct Groups {
    Shape shape;
    int64_t groups;
  };
  for (const auto& [shape, groups] :
       {Groups{{40, 12, 7, 7}, 4}, Groups{{33, 6, 1501}, 3}, Groups{{17, 8, 64}, 1}, Groups{{9, 10, 33}, 5},
        Groups{{34, 4, 4099}, 2}, Groups{{12, 64}, 8}, Groups{{3, 6, 20}, 6}, Groups{{36, 3, 3000}, 1}}) {
    expect_as_on_the_cpu("group_norm", shape, shape[1], [&](const Var& x, const Var& weight, const Var& bias) {
      return ad::group_norm(x, weight, bias, groups).y;
    });
    expect_as_on_the_cpu(
        "instance_norm", shape.rank() == 2 ? Shape{12, 64, 3} : shape, shape[1],
        [](const Var& x, const Var& weight, const Var& bias) { return ad::instance_norm(x, {}, {}, weight, bias).y; });
  }
}

}  // namespace
}  // namespace ashlar
