// Single operators at the sizes of the figures. Names are read by the rivals (torch_rival.py, cpu_rivals.py), which
// must do the same: rows_RxC reduces the columns of each row, columns_RxC the rows of each column, permute_D0D1…_SIZES
// moves axis D0 of that shape to the front, and so on; MxKxN is a product, its prefix the operands' transposes.
#include "ashlar/ops.h"
#include "benchmarks/benchmark.h"

namespace ashlar::bench {
namespace {

using enum DType;

constexpr int64_t k64M = int64_t{1} << 26;
const std::vector<DType> kFloats{f32, f16, bf16};

std::string joined(const Shape& shape) {
  std::string text;
  for (const int64_t size : shape) text.append(text.empty() ? "" : "x").append(std::to_string(size));
  return text;
}

Benchmark in(std::vector<DType> dtypes, Benchmark benchmark) {
  benchmark.dtypes = std::move(dtypes);
  return benchmark;
}

void add_elementwise(std::vector<Benchmark>& all) {
  const Input big{.shape = {k64M}}, matrix{.shape = {16384, 4096}}, row{.shape = {4096}};
  all.push_back(in(kFloats, simple("add", "64M", {big, big}, [](Tensors x) { return std::vector{add(x[0], x[1])}; })));
  all.push_back(in(kFloats, simple("gelu", "64M", {big}, [](Tensors x) { return std::vector{gelu(x[0])}; })));
  all.push_back(in(kFloats, simple("exp", "64M", {big}, [](Tensors x) { return std::vector{exp(x[0])}; })));
  all.push_back(in(
      kFloats, simple("add", "row_16384x4096", {matrix, row}, [](Tensors x) { return std::vector{add(x[0], x[1])}; })));
}

void add_movement(std::vector<Benchmark>& all) {
  const Input big{.shape = {k64M}};
  all.push_back(in(kFloats, simple("copy", "64M", {big}, [](Tensors x) { return std::vector{x[0].clone()}; })));
  const auto permute = [&](const Shape& shape, const Shape& axes) {
    std::string order;
    for (const int64_t axis : axes) order += std::to_string(axis);
    all.push_back(in({f32, f16}, simple("copy", "permute_" + order + "_" + joined(shape), {{.shape = shape}},
                                        [axes](Tensors x) { return std::vector{x[0].permute(axes).clone()}; })));
  };
  permute({8192, 8192}, {1, 0});
  permute({64, 1024, 16, 64}, {0, 2, 1, 3});  // heads of attention to the front
  permute({64, 16, 1024, 64}, {0, 1, 3, 2});
  permute({64, 128, 64, 128}, {3, 2, 1, 0});
  permute({64, 256, 64, 64}, {0, 2, 3, 1});  // channels to the end
}

void add_reductions(std::vector<Benchmark>& all) {
  using Reduce = Tensor (*)(const Tensor&, const Axes&, bool);
  const std::pair<const char*, Reduce> reductions[] = {{"sum", sum}, {"mean", mean}, {"max", max}};
  for (const auto& [name, reduce] : reductions) {
    const auto one = [&](const std::string& what, const Shape& shape, const Axes& axes) {
      all.push_back(simple(name, what + "_" + joined(shape), {{.shape = shape}},
                           [reduce, axes](Tensors x) { return std::vector{reduce(x[0], axes, false)}; }));
    };
    for (const Shape& shape : {Shape{16384, 4096}, Shape{16383, 4097}}) {
      one("rows", shape, {1});
      one("columns", shape, {0});
    }
    one("all", {k64M}, {});
  }
  for (const Shape& shape : {Shape{16384, 4096}, Shape{131072, 512}, Shape{16383, 4097}}) {
    all.push_back(simple("argmax", "rows_" + joined(shape), {{.shape = shape}},
                         [](Tensors x) { return std::vector{argmax(x[0], {1}, false)}; }));
  }
}

void add_rows(std::vector<Benchmark>& all) {
  for (const int64_t columns : {32, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}) {
    const Shape shape{k64M / columns, columns};
    const Input x{.shape = shape}, y{.shape = shape, .values = {.low = 0, .high = 0.1}};
    const std::string size = joined(shape);
    all.push_back(
        in({f32, bf16}, simple("softmax", size, {x}, [](Tensors t) { return std::vector{softmax(t[0], -1)}; })));
    all.push_back(simple("log_softmax", size, {x}, [](Tensors t) { return std::vector{log_softmax(t[0], -1)}; }));
    all.push_back(
        simple("softmax_grad", size, {x, y}, [](Tensors t) { return std::vector{softmax_grad(t[0], t[1], -1)}; }));
    all.push_back(simple("log_softmax_grad", size, {x, x},
                         [](Tensors t) { return std::vector{log_softmax_grad(t[0], t[1], -1)}; }));
  }
}

Benchmark product(int64_t m, int64_t k, int64_t n, bool transpose_a, bool transpose_b) {
  std::string name = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
  if (transpose_a || transpose_b) name = std::string(transpose_a ? "t" : "n") + (transpose_b ? "t" : "n") + "_" + name;
  return simple(
      "matmul", name,
      {{.shape = transpose_a ? Shape{k, m} : Shape{m, k}}, {.shape = transpose_b ? Shape{n, k} : Shape{k, n}}},
      [=](Tensors x) {
        return std::vector{matmul(x[0], x[1], {.transpose_a = transpose_a, .transpose_b = transpose_b})};
      },
      2.0 * static_cast<double>(m * k * n));
}

// relu(x · weightᵀ + bias)
Benchmark layer(int64_t m, int64_t k, int64_t n) {
  const std::string size = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
  return simple(
      "matmul", "linear_gelu_" + size, {{.shape = {m, k}}, {.shape = {n, k}}, {.shape = {n}}},
      [](Tensors x) {
        return std::vector{matmul(x[0], x[1], {.transpose_b = true, .activation = Activation::gelu}, x[2])};
      },
      2.0 * static_cast<double>(m * k * n));
}

void add_products(std::vector<Benchmark>& all) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const int64_t n : {256, 512, 1024, 2048, 4096, 8192}) all.push_back(product(n, n, n, a, b));
    }
  }
  for (const auto& [m, k, n] : {std::tuple{8192, 64, 8192},
                                {1000, 999, 1001},
                                {4095, 4097, 4099},
                                {1, 4096, 4096},
                                {8, 4096, 4096},
                                {32, 4096, 4096},
                                {4096, 4096, 1}}) {
    all.push_back(product(m, k, n, false, false));
  }
  for (const auto& [m, k, n] : {std::tuple{1, 64, 128},
                                {32, 64, 128},
                                {64, 64, 128},
                                {1, 1024, 1024},
                                {32, 1024, 1024},
                                {1, 4096, 4096},
                                {8, 4096, 4096},
                                {32, 4096, 4096},
                                {64, 4096, 4096}}) {
    all.push_back(layer(m, k, n));
  }
}

// matmul_cublaslt/<mode>_MxKxN and <mode>_linear_relu_MxKxN; the mode is strict or tf32
void add_vendor_products(std::vector<Benchmark>& all) {
  constexpr int64_t n = 4096;
  const std::string size = "4096x4096x4096";
  for (const bool tf32 : {false, true}) {
    const std::string mode = tf32 ? "tf32_" : "strict_";
    const std::vector<DType> dtypes = tf32 ? std::vector{f32} : kFloats;
    const auto add_one = [&](const std::string& name, std::vector<Input> inputs, Call call) {
      all.push_back(in(
          dtypes, simple("matmul_cublaslt", mode + name + size, std::move(inputs), std::move(call), 2.0 * n * n * n)));
      all.back().vendor = VendorPolicy::always;
    };
    const Input square{.shape = {n, n}};
    add_one("", {square, square}, [tf32](Tensors x) { return std::vector{matmul(x[0], x[1], {.allow_tf32 = tf32})}; });
    add_one("linear_relu_", {square, square, {.shape = {n}}}, [tf32](Tensors x) {
      return std::vector{
          matmul(x[0], x[1], {.transpose_b = true, .activation = Activation::relu, .allow_tf32 = tf32}, x[2])};
    });
  }
}

}  // namespace

std::vector<Benchmark> operator_benchmarks() {
  std::vector<Benchmark> all;
  add_elementwise(all);
  add_movement(all);
  add_reductions(all);
  add_rows(all);
  add_products(all);
  add_vendor_products(all);
  return all;
}

}  // namespace ashlar::bench
