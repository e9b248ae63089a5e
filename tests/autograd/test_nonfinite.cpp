// NaN and infinities in one row, head, batch or image: its gradients have them, and nobody else's changes by a bit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "runtime/tensor/random.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using Doubles = std::vector<double>;

class NonFinite : public testing::OnDevice {
 protected:
  /// Lanes [lanes, …] of numbers, in the last of which every third is `spoil`, where that isn't 0.
  Tensor lanes(const Shape& shape, double spoil, uint64_t seed) const {
    Random random(seed);
    std::vector<float> values = Tensor::randn(shape, random).to_vector<float>();
    const size_t lane = values.size() / static_cast<size_t>(shape[0]);
    for (size_t i = values.size() - lane; spoil != 0 && i < values.size(); i += 3)
      values[i] = static_cast<float>(spoil);
    return Tensor::from(values, shape, device());
  }

  /// `y` of inputs whose first axis are lanes: gradients by each of them, with lanes spoilt and not.
  void expect_kept_apart(const std::string& what, const std::vector<Shape>& shapes,
                         const std::function<Var(const std::vector<Var>&)>& y) {
    for (const double spoil : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const auto gradients = [&](double with) {
        std::vector<Var> inputs;
        for (size_t i = 0; i < shapes.size(); i++) inputs.emplace_back(lanes(shapes[i], i == 0 ? with : 0, i), true);
        const Var result = y(inputs);
        const Var dy(lanes(result.shape(), 0, 99));
        std::vector<Doubles> all{result.value().to_doubles()};
        for (const Var& gradient : grad({result}, inputs, {dy})) all.push_back(gradient.value().to_doubles());
        return all;
      };
      const std::vector<Doubles> spoilt = gradients(spoil), clean = gradients(0);
      bool reaches = false;
      for (size_t g = 0; g < clean.size(); g++) {
        const size_t kept = clean[g].size() - clean[g].size() / static_cast<size_t>(shapes[0][0]);
        for (size_t i = 0; i < clean[g].size(); i++) {
          ASSERT_TRUE(std::isfinite(clean[g][i])) << what;
          if (i < kept) {
            ASSERT_EQ(spoilt[g][i], clean[g][i]) << what << " with " << spoil << ", result " << g << ", element " << i;
          } else {
            reaches = reaches || (g > 0 && std::isnan(spoilt[g][i]));
          }
        }
      }
      EXPECT_TRUE(reaches || !std::isnan(spoil)) << what << ": no gradient is NaN";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, NonFinite, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(NonFinite, Attention) {
  for (const bool is_causal : {false, true}) {
    for (const int64_t width : {8, 33}) {
      const Shape shape{3, 2, 9, width};
      expect_kept_apart("attention", {shape, shape, shape}, [&](const std::vector<Var>& in) {
        return ad::scaled_dot_product_attention(in[0], in[1], in[2], {}, is_causal).y;
      });
      expect_kept_apart("attention's keys", {shape, shape, shape}, [&](const std::vector<Var>& in) {
        return ad::scaled_dot_product_attention(in[1], in[0], in[2], {}, is_causal).y;
      });
      expect_kept_apart("attention's values", {shape, shape, shape}, [&](const std::vector<Var>& in) {
        return ad::scaled_dot_product_attention(in[1], in[2], in[0], {}, is_causal).y;
      });
    }
  }
}

TEST_P(NonFinite, Norms) {
  for (const int64_t columns : {5, 70}) {
    expect_kept_apart("layer_norm", {{4, columns}}, [](const auto& in) { return ad::layer_norm(in[0]).y; });
    expect_kept_apart("rms_norm", {{4, columns}}, [](const auto& in) { return ad::rms_norm(in[0]).y; });
    expect_kept_apart("softmax", {{4, columns}}, [](const auto& in) { return ad::softmax(in[0]); });
    expect_kept_apart("group_norm", {{3, 4, columns}},
                      [](const auto& in) { return ad::group_norm(in[0], {}, {}, 2).y; });
  }
}

TEST_P(NonFinite, Recurrent) {
  // Batches are the second axis: they are moved to the front for the test.
  const Var weight(Tensor::full({15, 5}, 0.1, DType::f32, device())), bias(Tensor::zeros({15}, DType::f32, device()));
  expect_kept_apart("gru_sequence", {{3, 4, 15}, {3, 5}}, [&](const std::vector<Var>& in) {
    return ad::gru_sequence(in[0].permute({1, 0, 2}), in[1], weight, bias).permute({1, 0, 2});
  });
}

}  // namespace
}  // namespace ashlar
