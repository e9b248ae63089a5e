#include "tools/tune/call.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "runtime/forms/forms.h"
#include "runtime/launch/dispatch.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "tools/tune/bundle.h"

namespace ashlar::tune {
namespace {

DType dtype_of_argument(const Argument& argument, uint32_t key) {
  return argument.element < 0 ? argument.dtype : static_cast<DType>(key >> 8 * argument.element & 255);
}

/// xorshift64* (Marsaglia 2003; Vigna 2016).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint32_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>(state_ * 0x2545f4914f6cdd1du >> 32);
  }

 private:
  uint64_t state_;
};

Tensor random_tensor(const Shape& shape, DType dtype, int64_t below, uint64_t seed) {
  Random random(seed);
  const auto count = static_cast<size_t>(shape.numel());
  if (is_floating(dtype)) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random.next())) * 0x1p-31f;
    return Tensor::from<float>(values, shape).to(dtype);
  }
  std::vector<int32_t> values(count);
  for (int32_t& value : values) value = static_cast<int32_t>(random.next() % static_cast<uint64_t>(below));
  return Tensor::from<int32_t>(values, shape).to(dtype);
}

std::vector<const Argument*> inputs_of(const KernelInfo& kernel) {
  std::vector<const Argument*> inputs;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role == Argument::Role::input) inputs.push_back(&argument);
  }
  return inputs;
}

int highest_rank(const KernelInfo& kernel) {
  int rank = 1;
  for (const Argument* input : inputs_of(kernel)) rank = std::max<int>(rank, input->rank);
  return rank;
}

/// Shapes for the inputs of a kernel of Form::plain: an input of lower rank takes the last of the sizes, else others
/// that stand together, as the kernel's own rule wants it. Empty: its rule accepts none.
std::vector<Shape> plain_shapes(const KernelInfo& kernel, const std::vector<int64_t>& sizes) {
  const std::vector<const Argument*> inputs = inputs_of(kernel);
  const int rank = static_cast<int>(sizes.size());
  std::vector<int> first;  // of each input's sizes
  for (const Argument* input : inputs) first.push_back(rank - input->rank);
  const auto scratch = static_cast<size_t>(kernel.count(Argument::Role::scratch));
  std::vector<Shape> results(static_cast<size_t>(kernel.count(Argument::Role::output)) + scratch);
  while (true) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < inputs.size(); i++) {
      Shape shape = Shape::filled(inputs[i]->rank, 1);
      for (int axis = 0; axis < inputs[i]->rank; axis++) shape[axis] = sizes[static_cast<size_t>(first[i] + axis)];
      shapes.push_back(shape);
    }
    if (kernel.shape_rule == nullptr || kernel.shape_rule(shapes.data(), results.data()) == nullptr) return shapes;
    size_t i = 0;
    for (; i < inputs.size(); i++) {
      if (inputs[i]->rank > 0 && --first[i] >= 0) break;
      first[i] = rank - inputs[i]->rank;
    }
    if (i == inputs.size()) return {};
  }
}

Shape shape_of_input(const KernelInfo& kernel, const Argument& argument, const std::vector<int64_t>& sizes) {
  if (argument.rank == 0) return {};
  switch (kernel.form) {
    case Form::rows:
      return argument.rank == 1 ? Shape{sizes[0]} : Shape{sizes[0], sizes[1]};
    case Form::reduction:
      return {sizes[0], sizes[1], sizes[2]};
    case Form::pointwise:
    case Form::broadcast:
      return {sizes[0]};
    case Form::plain:  // see plain_shapes()
    case Form::movement:
    case Form::contraction:
      break;
  }
  Shape shape = Shape::filled(argument.rank, 1);
  shape[argument.rank - 1] = sizes[0];
  return shape;
}

/// The product's operands as a layer's forward and backward passes lay them out: a·b, a·bᵀ, aᵀ·b.
Inputs contraction_inputs(uint32_t key, const std::vector<int64_t>& sizes) {
  const int64_t batch = sizes[0], m = sizes[1], n = sizes[2], k = sizes[3];
  const auto dtype = static_cast<DType>(key & 255);
  const Tensor bias = random_tensor({n}, dtype, 1, 3);
  return {{random_tensor({batch, m, k}, dtype, 1, 1), random_tensor({batch, k, n}, dtype, 1, 2), bias},
          {random_tensor({batch, m, k}, dtype, 1, 1), random_tensor({batch, n, k}, dtype, 1, 2), bias},
          {random_tensor({batch, k, m}, dtype, 1, 1), random_tensor({batch, k, n}, dtype, 1, 2), bias}};
}

std::vector<Tensor> call_one(const KernelInfo& kernel, uint32_t key, const std::vector<Tensor>& inputs, size_t set) {
  const auto variant = static_cast<uint8_t>(key >> 16 & 255);
  const std::vector<Scalar> scalars(static_cast<size_t>(kernel.count(Argument::Role::scalar)), Scalar(1));
  switch (kernel.form) {
    case Form::plain:
      return forms::plain(kernel, inputs, scalars, variant);
    case Form::pointwise:
      return forms::pointwise(kernel, inputs, scalars);
    case Form::broadcast:
      return {forms::broadcast(kernel, inputs, scalars)};
    case Form::rows:
      return forms::rows(kernel, inputs, -1, scalars);
    case Form::reduction:
      return {forms::reduction(kernel, inputs[0], {1}, false)};
    case Form::contraction: {
      MatmulOptions options{.transpose_a = set == 2, .transpose_b = set == 1};
      const std::string_view epilogue = kernel.comptimes[0].values[variant];
      if (epilogue != "none") options.bias = inputs[2];
      if (epilogue == "bias_relu") options.activation = Activation::relu;
      if (epilogue == "bias_gelu") options.activation = Activation::gelu;
      return {forms::contraction(kernel, inputs[0], inputs[1], options)};
    }
    case Form::movement: {  // called by the runtime itself, so here as it does
      if (inputs.empty()) {
        throw ValueError(kernel.name, "a kernel without inputs", "a tensor to work on", "Tune another kernel");
      }
      const KernelKey typed{{static_cast<DType>(key & 255), static_cast<DType>(key >> 8 & 255)}, variant};
      std::vector<Tensor> outputs;
      for (const Argument& argument : kernel.arguments) {
        if (argument.role != Argument::Role::output) continue;
        outputs.push_back(Tensor::empty(inputs[0].shape(), dtype_of_argument(argument, key), inputs[0].device()));
      }
      launch(kernel, typed, inputs, scalars, outputs);
      return outputs;
    }
  }
  return {};
}

/// How far two results of one dtype may lie apart, of the larger of the element and the root mean square.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1e-4;
    case DType::f16:
      return 4e-3;
    case DType::bf16:
      return 3e-2;
    case DType::f64:
      return 1e-9;
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::u32:
    case DType::i8:
    case DType::u16:
    case DType::i16:
    case DType::boolean:
      break;
  }
  return 0;
}

template <class T>
std::string difference_of(const std::vector<T>& came, const std::vector<T>& expected, double tolerance) {
  double squares = 0;
  size_t finite = 0;
  for (const T value : expected) {
    const auto v = static_cast<double>(value);
    if (!std::isfinite(v)) continue;
    squares += v * v;
    finite++;
  }
  const double typical = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  for (size_t i = 0; i < came.size(); i++) {
    const auto a = static_cast<double>(came[i]), b = static_cast<double>(expected[i]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::abs(a - b) <= tolerance * std::max(std::abs(b), typical)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a) + " and should be " + std::to_string(b);
  }
  return "";
}

}  // namespace

std::string size_names(const KernelInfo& kernel) {
  std::string names;
  const auto add = [&](const std::string& name) { names += (names.empty() ? "" : " x ") + name; };
  if (const int rank = highest_rank(kernel); kernel.form == Form::plain && rank > 1) {
    for (int axis = 0; axis < rank; axis++) add("axis " + std::to_string(axis));
    return names;
  }
  for (const char* name : kSizeNames[static_cast<size_t>(kernel.form)]) {
    if (name) add(name);
  }
  return names;
}

void check_shape(const KernelInfo& kernel, const std::vector<int64_t>& sizes) {
  const int count = kernel.form == Form::plain ? highest_rank(kernel) : size_count(kernel.form);
  if (sizes.size() != static_cast<size_t>(count)) {
    throw ValueError("ashlar-tune", "the shape " + text_of(sizes) + " for " + kernel.name,
                     std::to_string(count) + (count == 1 ? " size: " : " sizes: ") + size_names(kernel),
                     "Give --shapes of that form");
  }
  if (kernel.form == Form::plain && !inputs_of(kernel).empty() && plain_shapes(kernel, sizes).empty()) {
    throw ValueError("ashlar-tune", "the shape " + text_of(sizes) + " for " + kernel.name,
                     "sizes of which the shapes of its inputs can be taken as its definition wants them",
                     "Give other --shapes");
  }
}

Inputs make_inputs(const KernelInfo& kernel, uint32_t key, const std::vector<int64_t>& sizes) {
  check_shape(kernel, sizes);
  if (kernel.form == Form::contraction) return contraction_inputs(key, sizes);
  std::vector<Shape> shapes;
  if (kernel.form == Form::plain) shapes = plain_shapes(kernel, sizes);
  std::vector<Tensor> inputs;
  for (const Argument* argument : inputs_of(kernel)) {
    const Shape shape = kernel.form == Form::plain ? shapes[inputs.size()] : shape_of_input(kernel, *argument, sizes);
    inputs.push_back(random_tensor(shape, dtype_of_argument(*argument, key), sizes.back(), inputs.size() + 1));
  }
  return {inputs};
}

std::vector<int64_t> sizes_for_table(const KernelInfo& kernel, const Inputs& inputs,
                                     const std::vector<Tensor>& outputs) {
  const auto sizes = detail::canonical_sizes(kernel.form, inputs[0], outputs);
  return {sizes.begin(), sizes.begin() + size_count(kernel.form)};
}

Inputs copy_to(const Inputs& inputs, Device device) {
  Inputs copies;
  for (const std::vector<Tensor>& set : inputs) {
    std::vector<Tensor> copy;
    for (const Tensor& x : set) copy.push_back(device == x.device() ? x.clone() : x.to(device));
    copies.push_back(copy);
  }
  return copies;
}

std::vector<Tensor> call(const KernelInfo& kernel, uint32_t key, const Inputs& inputs) {
  std::vector<Tensor> outputs;
  for (size_t set = 0; set < inputs.size(); set++) {
    for (Tensor& y : call_one(kernel, key, inputs[set], set)) outputs.push_back(std::move(y));
  }
  return outputs;
}

std::string difference(const std::vector<Tensor>& came, const std::vector<Tensor>& expected) {
  for (size_t i = 0; i < came.size(); i++) {
    const double tolerance = tolerance_of(came[i].dtype());
    const bool is_wide = came[i].dtype() == DType::f64 || !is_floating(came[i].dtype());
    const std::string found = is_wide ? difference_of(came[i].to(DType::f64).to_vector<double>(),
                                                      expected[i].to(DType::f64).to_vector<double>(), tolerance)
                                      : difference_of(came[i].to(DType::f32).to_vector<float>(),
                                                      expected[i].to(DType::f32).to_vector<float>(), tolerance);
    if (!found.empty()) return "output " + std::to_string(i) + ": " + found;
  }
  return "";
}

std::vector<std::vector<int64_t>> check_sizes(const KernelInfo& kernel) {
  if (const int rank = highest_rank(kernel); kernel.form == Form::plain && rank > 1) {
    std::vector<std::vector<int64_t>> shapes;
    for (const auto& [rows, columns] : std::initializer_list<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 33}, {33, 33}, {130, 65}, {5, 1031}, {1031, 7}, {128, 128}}) {
      std::vector<int64_t> shape(static_cast<size_t>(rank), shapes.size() % 2 ? 3 : 1);
      *(shape.end() - 2) = rows;
      shape.back() = columns;
      if (!plain_shapes(kernel, shape).empty()) shapes.push_back(shape);  // not every rule accepts every shape
    }
    return shapes;
  }
  switch (kernel.form) {
    case Form::rows:
      return {{1, 1}, {3, 33}, {130, 65}, {5, 1031}, {2, 4096}, {2, 20001}};
    case Form::reduction:
      return {{3, 33, 1}, {1, 70001, 1}, {2, 129, 5}, {1, 1025, 130}, {65, 7, 3}};
    case Form::contraction:
      return {{1, 1, 1, 1},      {2, 33, 65, 47},     {1, 127, 130, 33}, {1, 3, 130, 129},
              {1, 128, 256, 64}, {1, 257, 129, 1031}, {1, 256, 384, 96}, {3, 1, 257, 70}};
    case Form::plain:
    case Form::pointwise:
    case Form::broadcast:
    case Form::movement:
      break;
  }
  return {{1}, {33}, {1023}, {1 << 14}, {100003}};
}

double bytes_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  double bytes = 0;
  for (const Tensor& x : inputs) bytes += static_cast<double>(x.bytes());
  for (const Tensor& y : outputs) bytes += static_cast<double>(y.bytes());
  return bytes;
}

}  // namespace ashlar::tune
