// Random numbers by their place in a stream, each against Philox's words on the host: integers and uniform numbers to
// the bit, others as far as their functions are exact. What distributions they have: tests/tensor/random_test.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/tensor/random.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const Input kState{.shape = {2}, .values = {Pattern::integers, -0x1p40, 0x1p40}, .dtype = DType::i64};

/// The words of a stream, four of each block.
class Words {
 public:
  explicit Words(const HostTensor& state)
      : seed_(static_cast<uint64_t>(static_cast<int64_t>(state.values[0]))),
        first_(static_cast<uint64_t>(static_cast<int64_t>(state.values[1]))) {}
  uint32_t operator[](int64_t i) const {
    const uint64_t block = first_ + static_cast<uint64_t>(i / 4);
    const auto words =
        ashlar::Random::philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, seed_);
    return words[static_cast<size_t>(i % 4)];
  }

 private:
  uint64_t seed_, first_;
};

// The state after so many blocks.
Expected advanced(const HostTensor& state, int64_t blocks) {
  return {{2}, {state.values[0], state.values[1] + static_cast<double>(blocks)}, {}, DType::i64};
}

/// A distribution: its operator, and number i with the size of its error's terms.
struct Distribution {
  const char* kernel;
  std::string name;
  std::function<Tensor(const Tensor& state, const Shape& shape)> call;
  std::function<Reduced(const Words&, int64_t i)> number;
  Tolerance tolerance = kExact;
  DType dtype = DType::f32;
  int64_t per_block = 4;
};

Case drawn(const Distribution& d, const Shape& shape) {
  return {.kernel = d.kernel,
          .name = d.name + " " + shape.str(),
          .inputs = {kState},
          .dtypes = {d.dtype},
          .call =
              [=](Tensors in) {
                return std::vector{d.call(in[0], shape), in[0]};
              },
          .reference =
              [=](HostTensors in) {
                Expected y{shape, {}, {}, d.dtype};
                const Words words(in[0]);
                for (int64_t i = 0; i < shape.numel(); i++) {
                  const Reduced number = d.number(words, i);
                  y.values.push_back(number.value);
                  y.magnitudes.push_back(number.magnitude);
                }
                return std::vector{y, advanced(in[0], (shape.numel() + d.per_block - 1) / d.per_block)};
              },
          .tolerance = d.tolerance,
          .in_place = true,
          .fixed_shapes = true,
          .is_drawn = false};
}

Distribution uniform_between(double low, double high) {
  // As the kernel says: products without rounding, added up in this order.
  const auto number = [=](const Words& words, int64_t i) {
    const auto first = static_cast<float>(low), last = static_cast<float>(high), range = static_cast<float>(high - low);
    int exponent = 0;
    std::frexp(range, &exponent);
    const auto unit = std::ldexp(1.0F, exponent - 12);
    const float coarse = std::trunc(range / unit) * unit, fine = range - coarse;
    const float upper = static_cast<float>(words[i] >> 20) * 0x1p-12F;
    const float lower = static_cast<float>(words[i] >> 8 & 0xfff) * 0x1p-24F;
    const float sum = (((fine * lower + coarse * lower) + fine * upper) + coarse * upper) + first;
    return Reduced{std::min(sum, std::nextafter(last, first)), 0};
  };
  return {"uniform", std::to_string(low) + " to " + std::to_string(high),
          [=](const Tensor& state, const Shape& shape) { return uniform(state, low, high, shape); }, number};
}

double inside_of_one(uint32_t word) { return (static_cast<float>(static_cast<int32_t>(word >> 1)) + 0.5F) * 0x1p-31F; }

Distribution normal_around(double mean, double std) {
  const auto number = [=](const Words& words, int64_t i) {
    const double radius = std::sqrt(-2 * std::log(inside_of_one(words[i / 2 * 2])));
    const uint32_t angle = words[i / 2 * 2 + 1];
    const double turns = (angle >> 30) + static_cast<float>(static_cast<int32_t>(angle << 2)) * 0x1p-32F;
    const double z = radius * (i % 2 == 0 ? std::cos(turns * M_PI / 2) : std::sin(turns * M_PI / 2));
    return Reduced{mean + std * z, std::abs(mean) + std * (radius + 0.1)};
  };
  return {"normal", std::to_string(mean) + " by " + std::to_string(std),
          [=](const Tensor& state, const Shape& shape) { return normal(state, mean, std, shape); }, number,
          terms(2e-6)};
}

// x of erf(x) = y by Newton's method, with the complement in the tails.
double inverse_erf(double y) {
  const double size = std::abs(y);
  double x = 0;
  for (int step = 0; step < 100; step++) {
    const double error = size < 0.5 ? std::erf(x) - size : (1 - size) - std::erfc(x);
    x -= error / (2 / std::sqrt(M_PI) * std::exp(-x * x));
  }
  return std::copysign(x, y);
}

Distribution truncated_to(double mean, double std, double a, double b) {
  const auto number = [=](const Words& words, int64_t i) {
    const auto place = [&](double bound) { return std::erf((bound - mean) / (std * std::sqrt(2.0))); };
    const double y = place(a) + (place(b) - place(a)) * inside_of_one(words[i]);
    const double z = inverse_erf(std::clamp(y, -0.99999994, 0.99999994));
    const double x = std::clamp(mean + std * std::sqrt(2.0) * z, a, b);
    // What y's rounding to f32 makes of it, too.
    return Reduced{x, std::abs(mean) + std * (std::abs(z) + 0.02 * std::exp(z * z))};
  };
  return {"trunc_normal", std::to_string(a) + " to " + std::to_string(b),
          [=](const Tensor& state, const Shape& shape) { return trunc_normal(state, mean, std, a, b, shape); }, number,
          terms(1e-5)};
}

int64_t integer_of(const Words& words, int64_t i, int64_t low, uint64_t count) {
  const uint64_t random = words[2 * i] | uint64_t{words[2 * i + 1]} << 32;
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>(static_cast<uint64_t>(low) + static_cast<uint64_t>(Wide{random} * count >> 64));
}

Distribution integers_between(int64_t low, int64_t high) {
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const auto number = [=](const Words& words, int64_t i) {
    return Reduced{static_cast<double>(integer_of(words, i, low, count)), 0};
  };
  return {"randint",
          std::to_string(low) + " to " + std::to_string(high),
          [=](const Tensor& state, const Shape& shape) { return randint(state, low, high, shape); },
          number,
          kExact,
          DType::i64,
          2};
}

Case permutation(int64_t n) {
  return {.kernel = "randperm",
          .name = std::to_string(n),
          .inputs = {kState},
          .dtypes = {DType::i64},
          .call =
              [n](Tensors in) {
                return std::vector{randperm(in[0], n), in[0]};
              },
          .reference =
              [n](HostTensors in) {
                const Words words(in[0]);
                std::vector<int64_t> keys;
                for (int64_t i = 0; i < n; i++) keys.push_back(integer_of(words, i, 0, INT64_MAX));
                std::vector<int64_t> order(keys.size());
                std::iota(order.begin(), order.end(), 0);
                std::ranges::stable_sort(order, {}, [&](int64_t i) { return keys[static_cast<size_t>(i)]; });
                return std::vector{Expected{{n}, {order.begin(), order.end()}, {}, DType::i64},
                                   advanced(in[0], (n + 1) / 2)};
              },
          .in_place = true,
          .fixed_shapes = true,
          .is_drawn = false};
}

Case bernoulli_case(const Shape& shape) {
  return {.kernel = "bernoulli",
          .name = shape.str(),
          .inputs = {kState, {shape, {.low = 0, .high = 1}}},
          .call =
              [](Tensors in) {
                return std::vector{bernoulli(in[0], in[1]), in[0]};
              },
          .reference =
              [](HostTensors in) {
                const Words words(in[0]);
                Expected y{in[1].shape, {}};
                for (size_t i = 0; i < in[1].values.size(); i++) {
                  y.values.push_back((words[static_cast<int64_t>(i)] >> 8) * 0x1p-24 < in[1].values[i]);
                }
                return std::vector{y, advanced(in[0], (in[1].shape.numel() + 3) / 4)};
              },
          .in_place = true,
          .fixed_shapes = true,
          .is_drawn = false};
}

Case dropout_case(std::string name, Input x, double p) {
  return {.kernel = "dropout_at",
          .name = std::move(name),
          .inputs = {std::move(x), kState},
          .call = [p](Tensors in) { return std::vector{dropout_at(in[0], in[1], p)}; },
          .reference =
              [p](HostTensors in) {
                const Words words(in[1]);
                Expected y{in[0].shape, {}};
                const double scale = p < 1 ? 1 / (1 - p) : 0;
                for (size_t i = 0; i < in[0].values.size(); i++) {
                  const bool stays = (words[static_cast<int64_t>(i)] >> 8) * 0x1p-24 >= p;
                  y.values.push_back(stays ? in[0].values[i] * scale : 0);
                }
                return std::vector{y};
              },
          .tolerance = ulps(1),
          .differentiable = [p](Vars in) { return ad::dropout_at(in[0], in[1].value(), p); },
          .fixed_shapes = true,
          .is_drawn = false};  // the state has two elements, side by side
}

/// Dropouts whose stream goes on: of elements or of channels of x [n, c, …], by 0 or so that mean and variance stay.
struct Dropping {
  const char* kernel;
  Tensor (*call)(const Tensor& x, const Tensor& state, double p);
  Var (*record)(const Var& x, const Tensor& state, double p);
  bool is_of_channels, keeps_normal;
};

Case dropping_case(const Dropping& how, const Shape& shape, double p) {
  return {.kernel = how.kernel,
          .name = shape.str() + " with " + std::to_string(p),
          .inputs = {{shape}, kState},
          .call =
              [=](Tensors in) {
                return std::vector{how.call(in[0], in[1], p), in[1]};
              },
          .reference =
              [=](HostTensors in) {
                const Words words(in[1]);
                constexpr double kLeast = -1.7580993408473766;  // SELU's
                const int64_t of_each = how.is_of_channels ? shape.numel() / (shape[0] * shape[1]) : 1;
                const double scale =
                    how.keeps_normal ? 1 / std::sqrt((1 - p) * (1 + p * kLeast * kLeast)) : 1 / (1 - p);
                Expected y{shape, {}, {}};
                for (int64_t i = 0; i < shape.numel(); i++) {
                  const bool stays = (words[i / of_each] >> 8) * 0x1p-24 >= p;
                  const double x = in[0].values[static_cast<size_t>(i)], shift = how.keeps_normal ? p * kLeast : 0;
                  y.values.push_back(scale * ((stays ? x : how.keeps_normal ? kLeast : 0) - shift));
                  y.magnitudes.push_back(4 * scale * (std::abs(x) + 2) * (size_of(in[0].dtype) == 2 ? 1024 : 1));
                }
                return std::vector{y, advanced(in[1], (shape.numel() / of_each + 3) / 4)};
              },
          .tolerance = terms(3e-6),
          .in_place = true,
          .differentiable = [=](Vars in) { return how.record(in[0], in[1].value().clone(), p); },
          .fixed_shapes = true,
          .is_drawn = false};
}

Case rrelu_case(const Shape& shape, double lower, double upper) {
  const Distribution slopes = uniform_between(lower, upper);
  return {.kernel = "rrelu",
          .name = shape.str() + " from " + std::to_string(lower) + " to " + std::to_string(upper),
          .inputs = {{shape}, kState},
          .call =
              [=](Tensors in) {
                return std::vector{rrelu(in[0], in[1], lower, upper), in[1]};
              },
          .reference =
              [=](HostTensors in) {
                const Words words(in[1]);
                Expected y{shape, {}, {}};
                for (int64_t i = 0; i < shape.numel(); i++) {
                  const double x = in[0].values[static_cast<size_t>(i)];
                  const double slope = rounded(slopes.number(words, i).value, in[0].dtype);
                  y.values.push_back(x > 0 ? x : slope * x);
                }
                return std::vector{y, advanced(in[1], (shape.numel() + 3) / 4)};
              },
          .tolerance = ulps(1),
          .in_place = true,
          .differentiable = [=](Vars in) { return ad::rrelu(in[0], in[1].value().clone(), lower, upper); },
          .fixed_shapes = true,
          .is_drawn = false};
}

// A row's class, of the k likeliest in order, by a place u in their distribution function.
int64_t class_of(std::span<const double> logits, int64_t k, double temperature, double top_p, double u) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t i) { return logits[static_cast<size_t>(i)]; });
  order.resize(static_cast<size_t>(k));
  std::vector<double> sums;
  double total = 0;
  for (const int64_t i : order) {
    sums.push_back(total +=
                   std::exp((logits[static_cast<size_t>(i)] - logits[static_cast<size_t>(order[0])]) / temperature));
  }
  const auto last = top_p < 1 ? std::ranges::lower_bound(sums, top_p * total) : sums.end() - 1;
  const auto place = std::ranges::upper_bound(sums, u * *last);
  return order[static_cast<size_t>(std::min(place, sums.end() - 1) - sums.begin())];
}

Case sampling_case(const Shape& shape, int64_t k, double temperature, double top_p) {
  return {.kernel = "sample_top_k",
          .name = shape.str() + " k " + std::to_string(k) + " at " + std::to_string(temperature) + " to " +
                  std::to_string(top_p),
          .inputs = {{shape, {.low = -4, .high = 4}}, kState},
          .call =
              [=](Tensors in) {
                return std::vector{sample_top_k(in[0], in[1], k, temperature, top_p), in[1]};
              },
          .reference =
              [=](HostTensors in) {
                const Words words(in[1]);
                const auto classes = static_cast<size_t>(shape.back());
                Shape rows = shape;
                rows.erase(rows.rank() - 1);
                Expected y{rows, {}, {}, DType::i64};
                for (int64_t i = 0; i < rows.numel(); i++) {
                  const std::span row = std::span(in[0].values).subspan(static_cast<size_t>(i) * classes, classes);
                  const double u = (words[i] >> 8) * 0x1p-24;
                  y.values.push_back(static_cast<double>(class_of(row, k, temperature, top_p, u)));
                }
                return std::vector{y, advanced(in[1], (rows.numel() + 3) / 4)};
              },
          .in_place = true,
          .fixed_shapes = true,
          .is_drawn = false};
}

}  // namespace

void add_random_number_cases() {
  for (const Distribution& d :
       {uniform_between(0, 1), uniform_between(-3, 5.3), uniform_between(1e-3, 1e6), uniform_between(2, 2.000001),
        normal_around(0, 1), normal_around(-5, 0.1), truncated_to(0, 1, -2, 2), truncated_to(1, 0.5, 1.2, 3),
        truncated_to(0, 0.02, -0.04, 1), integers_between(0, 10), integers_between(-7, INT64_C(1) << 50),
        integers_between(INT64_MIN / 1024, 3)}) {
    add_case(drawn(d, {1237}));
    add_case(drawn(d, {3, 5}));
  }
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{4}, Shape{33, 1021}}) {
    add_case(drawn(normal_around(0, 2), shape));
    add_case(drawn(integers_between(0, 6), shape));
  }
  for (const int64_t n : {0, 1, 100, 5000}) add_case(permutation(n));
  for (const double temperature : {0.1, 1.0, 5.0}) {
    add_case(sampling_case({33, 200}, 40, temperature, 1));
    add_case(sampling_case({33, 200}, 200, temperature, 0.6));
  }
  add_case(sampling_case({50257}, 50, 0.8, 0.9));
  add_case(sampling_case({3, 4, 7}, 1, 1, 1));
  add_case(sampling_case({0, 7}, 3, 1, 1));
  add_case(bernoulli_case({17, 31}));
  add_case(bernoulli_case({0}));
  for (const int64_t n : {0, 1, 3, 4, 5, 257, 511, 512, 513, 2048, 70001}) {
    add_case(dropout_case(std::to_string(n), {{n}}, 0.25));
  }
  for (const double p : {0.0, 0.5, 1.0}) add_case(dropout_case("p_" + std::to_string(p), {{19, 23}}, p));
  for (const Layout layout : {Layout::offset, Layout::transposed, Layout::flipped}) {
    add_case(dropout_case("view_" + std::to_string(static_cast<int>(layout)), {{9, 33}, {}, layout}, 0.5));
  }
  for (const Dropping& how :
       {Dropping{"dropout", dropout, ad::dropout, false, false},
        {"feature_dropout", feature_dropout, ad::feature_dropout, true, false},
        {"alpha_dropout", alpha_dropout, ad::alpha_dropout, false, true},
        {"feature_alpha_dropout", feature_alpha_dropout, ad::feature_alpha_dropout, true, true}}) {
    for (const double p : {0.0, 0.25, 0.5}) add_case(dropping_case(how, {3, 5, 7}, p));
    add_case(dropping_case(how, {2, 9}, 0.5));
  }
  add_case(rrelu_case({3, 5, 7}, 0.125, 0.25));
  add_case(rrelu_case({33}, -0.5, 1));
  Case nothing = dropout_case("special", {{400}, {Pattern::special}}, 0.5);
  nothing.differentiable = nullptr;
  add_case(nothing);
  Case bench = dropout_case("16777216", {{16'777'216}}, 0.1);
  bench.benchmark = true;
  add_case(bench);
}

}  // namespace ashlar::conformance
