// The kernel and the operators made of it against their definitions in double, on every device of this machine; and
// their gradients against finite differences of those definitions.
#include <cmath>

#include "ashlar/ad/distances.h"
#include "tests/conformance/case.h"
#include "tests/conformance/runner.h"

namespace {

using namespace ashlar;
using namespace ashlar::conformance;

Expected distances(HostTensors in, double (*of)(double)) {
  const int64_t rows_a = in[0].shape[0], rows_b = in[1].shape[0], columns = in[0].shape[1];
  Expected y{{rows_a, rows_b}, {}};
  for (int64_t i = 0; i < rows_a; ++i) {
    for (int64_t j = 0; j < rows_b; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < columns; ++k) {
        const double step =
            in[0].values[static_cast<size_t>(i * columns + k)] - in[1].values[static_cast<size_t>(j * columns + k)];
        sum += step * step;
      }
      y.values.push_back(of(sum));
    }
  }
  return y;
}

// Σ_j dy[i,j] 2 (a[i,k] - b[j,k]), of terms that may cancel.
Expected gradient(HostTensors in) {
  const int64_t rows_a = in[1].shape[0], rows_b = in[2].shape[0], columns = in[1].shape[1];
  Expected da{in[1].shape, {}};
  for (int64_t i = 0; i < rows_a; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      double sum = 0, magnitude = 0;
      for (int64_t j = 0; j < rows_b; ++j) {
        const double dy = in[0].values[static_cast<size_t>(i * rows_b + j)];
        const double a = in[1].values[static_cast<size_t>(i * columns + k)];
        const double b = in[2].values[static_cast<size_t>(j * columns + k)];
        sum += 2 * dy * (a - b);
        magnitude += 2 * std::abs(dy) * (std::abs(a) + std::abs(b));
      }
      da.values.push_back(sum);
      da.magnitudes.push_back(magnitude);
    }
  }
  return da;
}

}  // namespace

int main(int argc, char** argv) {
  struct Sizes {
    int64_t rows_a, rows_b, columns;
  };
  for (const auto& [rows_a, rows_b, columns] : {Sizes{1, 1, 1}, Sizes{5, 33, 7}, Sizes{130, 17, 64}}) {
    const std::string name = std::to_string(rows_a) + "x" + std::to_string(rows_b) + "x" + std::to_string(columns);
    const Case pair{
        .kernel = "squared_distances",
        .name = name,
        .inputs = {{{rows_a, columns}, {.low = -1, .high = 1}}, {{rows_b, columns}, {.low = -1, .high = 1}}},
        .dtypes = {DType::f32},
        .call = [](Tensors in) { return std::vector{squared_distances(in[0], in[1])}; },
        .reference = [](HostTensors in) { return std::vector{distances(in, [](double d) { return d; })}; },
        .tolerance = terms(),
        .differentiable = [](Vars in) { return ad::squared_distances(in[0], in[1]); },
        .differentiated = {0, 1}};
    add_case(pair);
    Case turned = pair;
    turned.name = name + "_turned";
    for (Input& input : turned.inputs) input.layout = Layout::transposed;
    add_case(turned);
    Case similarity = pair;
    similarity.kernel = "gaussian_kernel";
    similarity.call = [](Tensors in) { return std::vector{gaussian_kernel(in[0], in[1], 0.5)}; };
    similarity.reference = [](HostTensors in) {
      Expected y = distances(in, [](double d) { return std::exp(-0.5 * d); });
      // What is wrong with the exponent is that much of the result.
      y.magnitudes.clear();
      for (const double value : y.values) y.magnitudes.push_back(value * (1 - std::log(value)));
      return std::vector{y};
    };
    similarity.differentiable = [](Vars in) { return ad::gaussian_kernel(in[0], in[1], 0.5); };
    similarity.fixed_shapes = true;  // between longer vectors there's no similarity left to check
    add_case(similarity);
    add_case({.kernel = "squared_distances_grad",
              .name = name,
              .inputs = {{{rows_a, rows_b}}, {{rows_a, columns}}, {{rows_b, columns}}},
              .dtypes = {DType::f32},
              .call = [](Tensors in) { return std::vector{squared_distances_grad(in[0], in[1], in[2])}; },
              .reference = [](HostTensors in) { return std::vector{gradient(in)}; },
              .tolerance = terms()});
  }
  return run_conformance(argc, argv, kernels::all_of_distances());
}
