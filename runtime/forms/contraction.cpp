// A transpose is a pair of strides, a broadcast batch a stride of 0; one unit stride per matrix is what the kernels ask
// for.
#include "runtime/forms/contraction.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "runtime/forms/aligned_operands.h"
#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/forms/parts_of_sums.h"
#include "runtime/launch/dispatch.h"
#include "runtime/launch/few_rows.h"
#include "runtime/launch/plans.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"
#include "runtime/vendor/vendor.h"

namespace ashlar::forms {

namespace {

/// What happens to the sums before they are stored, as the kernel's comptime parameter calls it.
const char* epilogue_of(Activation activation, bool has_bias) {
  if (activation == Activation::relu) return "bias_relu";
  if (activation == Activation::gelu) return "bias_gelu";
  return has_bias ? "bias" : "none";
}

/// `variant` with the digit of the comptime parameter "epilogue" set. Throws ValueError where the kernel has none.
uint16_t with_epilogue(const KernelInfo& kernel, uint16_t variant, std::string_view epilogue) {
  size_t stride = 1;
  for (const ComptimeInfo& comptime : kernel.comptimes) {
    const auto found = std::ranges::find(comptime.values, epilogue);
    if (std::string_view(comptime.name) == "epilogue" && found != comptime.values.end()) {
      return static_cast<uint16_t>(variant + stride * static_cast<size_t>(found - comptime.values.begin()));
    }
    stride *= comptime.values.size();
  }
  if (epilogue == "none") return variant;
  throw ValueError(kernel.name, "a call with the epilogue " + std::string(epilogue), "one that the kernel has",
                   "Add the bias or call the activation after it");
}

/// The first `rank - dropped` sizes or strides.
Shape leading(const Shape& shape, int dropped) {
  Shape first;
  for (int i = 0; i < shape.rank() - dropped; i++) first.push_back(shape[i]);
  return first;
}

/// Batched matrices ready for the kernels: strides of the last two dimensions non-negative and one of them 1, where
/// a dimension of size 1 counts as having the stride that suits.
Tensor with_unit_stride(Tensor x) {
  const int rows = x.rank() - 2, columns = x.rank() - 1;
  const Shape &sizes = x.shape(), &steps = x.strides();
  const auto is_unit = [&](int i) { return steps[i] == 1 || sizes[i] == 1; };
  if (has_negative_strides(x) || (!is_unit(rows) && !is_unit(columns))) return with_unit_stride(x.contiguous());
  if (sizes[columns] > 1 && sizes[rows] > 1) return x;
  Shape strides = steps;
  if (sizes[columns] == 1) strides[columns] = strides[rows] == 1 ? sizes[rows] : 1;
  if (sizes[rows] == 1) strides[rows] = strides[columns] == 1 ? sizes[columns] : 1;
  return Tensor(x.storage(), sizes, strides, x.offset(), x.dtype());
}

constexpr int64_t kMostMatrices = 65535;  // they stand along the third dimension of the grid, which CUDA limits

/// One call's operands, with a = [batch…, m, k], b = [batch…, k, n] and the result y = [batch…, m, n], dense.
struct Product {
  const KernelInfo& kernel;
  KernelKey key;
  uint16_t without_epilogue;  ///< key's variant
  Tensor a, b, bias, y;
  std::span<const Scalar> scalars;
  Precision precision;

  Tensor matrices(const Tensor& x, const Shape& batch, const Shape& batch_strides, int64_t offset) const {
    const int rank = x.rank();
    return Tensor(x.storage(), {batch.numel(), x.shape()[rank - 2], x.shape()[rank - 1]},
                  {batch.empty() ? 0 : batch_strides[0], x.strides()[rank - 2], x.strides()[rank - 1]},
                  x.offset() + offset, x.dtype());
  }

  /// Whether our kernel computes it, of f32, where one product can be several and a sum, and operands laid anew.
  bool may_have_parts() const {
    return kernel.last != nullptr && key.elements[0] == DType::f32 && scalars.empty() && !precision.allow_tf32 &&
           vendor_policy() != VendorPolicy::always;
  }

  Shape batch() const { return leading(y.shape(), 2); }

  /// Whether one launch computes it, as its operands stand: one matrix, or a batch in which each matrix has its own.
  bool is_one_launch() const {
    const auto is_a_batch = [&](const Tensor& x) { return x.rank() == y.rank() && x.shape()[0] == y.shape()[0]; };
    return y.rank() == 2 || (y.rank() == 3 && y.shape()[0] <= kMostMatrices && is_a_batch(a) && is_a_batch(b));
  }
  /// Of such a product.
  Tensor as_it_stands(const Tensor& x) const { return matrices(x, batch(), x.strides(), 0); }

  /// Whether the vendor's library shall compute it, one launch, which takes so long by our kernels.
  bool is_vendors(double microseconds) const {
    const std::array inputs{as_it_stands(a), as_it_stands(b), bias};
    const std::array outputs{as_it_stands(y)};
    return ashlar::is_vendors({kernel, key, inputs, outputs, precision.allow_tf32, microseconds}, y.device());
  }

  KernelKey without_activation() const {
    KernelKey plain = key;
    plain.variant = without_epilogue;
    return plain;
  }

  /// The operands of `count` parts of `terms` terms each, from the at-th term on, and a bias that isn't read.
  std::array<Tensor, 3> parts_of(int64_t at, int64_t count, int64_t terms) const {
    const int64_t a_step = a.strides()[a.rank() - 1], b_step = b.strides()[b.rank() - 2];
    return {Tensor(a.storage(), {count, a.size(-2), terms}, {terms * a_step, a.strides()[a.rank() - 2], a_step},
                   a.offset() + at * a_step, a.dtype()),
            Tensor(b.storage(), {count, terms, b.size(-1)}, {terms * b_step, b_step, b.strides()[b.rank() - 1]},
                   b.offset() + at * b_step, b.dtype()),
            Tensor(b.storage(), {1}, {1}, b.offset(), b.dtype())};
  }

  /// What the kernel's plans take by their model for the first parts of k, or for all of it; -1: there's no model.
  double modelled(int64_t parts, int64_t terms) const {
    const int64_t m = y.size(-2), n = y.size(-1);
    const std::array outputs{
        Tensor(y.storage(), {parts, m, n}, {m * n, n, 1}, y.offset(), y.dtype())};  // never written
    return detail::modelled_microseconds(kernel, terms == a.size(-1) ? key : without_activation(), y.device(),
                                         parts_of(0, parts, terms), outputs);
  }

  /// Whether it shall be computed in parts of k, and how long they are.
  PartsOfSums in_parts() const {
    if (a.shape().back() < kLeastTermsOfParts) return {};
    constexpr int64_t kAligned = 4;  // elements, of the widest access
    const std::array<int64_t, 8> numbers{static_cast<int64_t>(reinterpret_cast<intptr_t>(&kernel)),
                                         key.packed(),
                                         a.strides()[a.rank() - 2],
                                         a.strides()[a.rank() - 1],
                                         b.strides()[b.rank() - 2],
                                         b.strides()[b.rank() - 1],
                                         a.offset() % kAligned,
                                         b.offset() % kAligned};
    const bool a_along_k = a.strides()[a.rank() - 1] == 1, b_along_k = b.strides()[b.rank() - 2] == 1;
    const bool is_few = y.size(-2) <= FewRows::most(b_along_k, b.strides()[b.rank() - 1] == 1) ||
                        y.size(-1) <= FewRows::most(a_along_k, a.strides()[a.rank() - 2] == 1);
    return parts_of_sums(kernel, y.size(-2), y.size(-1), a.size(-1),
                         {a_along_k && b_along_k && a.size(-1) % kAligned == 0, is_few, numbers}, y.device(),
                         [this](int64_t parts, int64_t terms) { return modelled(parts, terms); });
  }

  // P[p,m,n] = Σ over the p-th part of k of a[m,k] b[k,n], each a matrix of a batch; y = activation(Σ_p P[p] + bias)
  void run_in_parts(int64_t length) const {
    const int64_t m = y.size(-2), n = y.size(-1), k = a.size(-1), whole = k / length, rest = k % length;
    const bool rest_in_sum = is_rest_in_sum(m * n, rest, y.device()) && kernel.last_with_rest != nullptr;
    const Tensor sums = Tensor::empty({whole + (rest > 0 && !rest_in_sum), m, n}, y.dtype(), y.device());
    const auto add_parts = [&](int64_t first, int64_t count, int64_t terms) {
      launch(kernel, without_activation(), parts_of(first * length, count, terms), scalars,
             std::array{sums.slice(0, first, first + count)});
    };
    if (whole > 0) add_parts(0, whole, length);
    const std::array results{y.reshape({m, n})};
    if (rest_in_sum) {
      const std::array<Tensor, 3> operands = parts_of(whole * length, 1, rest);
      const std::array inputs{sums, operands[0].select(0, 0), operands[1].select(0, 0), bias};
      return launch(*kernel.last_with_rest, key, inputs, {}, results);
    }
    if (rest > 0) add_parts(whole, 1, rest);
    launch(*kernel.last, key, std::array{sums, bias}, {}, results);
  }

  bool is_one_matrix() const { return y.numel() == y.shape()[y.rank() - 2] * y.shape().back(); }

  /// What it takes by the model, one launch; -1: there's none.
  double modelled() const {
    if (is_one_matrix()) {
      const PartsOfSums parts = in_parts();
      if (parts.microseconds >= 0) return parts.microseconds;
    }
    const std::array inputs{as_it_stands(a), as_it_stands(b), bias};
    const std::array outputs{as_it_stands(y)};
    return detail::modelled_microseconds(kernel, key, y.device(), inputs, outputs);
  }

  bool has_epilogue() const { return key.variant != without_epilogue; }

  /// It with operands in memory of their own, along a's rows and b's columns, in rows of whole quads; where both are, k
  /// goes on with zeros for whole stages of every tile. `lay` makes them, `room` a result whose rows are whole quads.
  Product with_aligned(const AlignedOperands& which, const auto& lay, const auto& room) const {
    constexpr int64_t kStage = 16;
    const int64_t k = a.size(-1), n = y.size(-1), terms = which.left && which.right ? detail::round_up(k, kStage) : k;
    Product other = *this;
    if (which.left) other.a = lay(a.transpose(-1, -2), terms, a.size(-2)).transpose(-1, -2);
    if (!which.right) return other;
    const int64_t columns = has_epilogue() ? n : detail::round_up(n, AlignedOperands::kQuad);
    other.b = lay(b, terms, columns);
    if (columns != n) other.y = room(y, y.size(-2), columns);
    return other;
  }

  AlignedOperands aligned_operands() const {
    return ashlar::forms::aligned_operands(
        kernel, {a, b, y}, std::array{static_cast<int64_t>(reinterpret_cast<intptr_t>(&kernel)), int64_t{key.packed()}},
        [&](const AlignedOperands& which) {
          return with_aligned(which, imagined_aligned, imagined_aligned).modelled();
        });
  }

  void run_with_aligned(const AlignedOperands& which) const {
    const Product other = with_aligned(which, laid_aligned, room_for_aligned);
    other.run_as_it_stands();
    if (other.y.size(-1) != y.size(-1)) y.copy_(other.y.slice(-1, 0, y.size(-1)));
  }

  void run() const {
    if (may_have_parts() && is_one_launch()) {
      const AlignedOperands which = aligned_operands();
      if ((which.left || which.right) && !is_vendors(which.microseconds)) return run_with_aligned(which);
    }
    run_as_it_stands();
  }

  void run_as_it_stands() const {
    if (is_one_matrix() && may_have_parts()) {
      const PartsOfSums parts = in_parts();
      if (parts.length > 0 && !is_vendors(parts.microseconds)) return run_in_parts(parts.length);
    }
    const auto launch_all = [&](Tensor one_a, Tensor one_b, Tensor one_y) {
      launch(kernel, key, std::array{std::move(one_a), std::move(one_b), bias}, scalars, std::array{std::move(one_y)},
             precision);
    };
    const Shape batch = this->batch();
    if (is_one_launch()) {  // most calls
      return launch_all(matrices(a, batch, a.strides(), 0), matrices(b, batch, b.strides(), 0),
                        matrices(y, batch, y.strides(), 0));
    }
    const Tensor all_a = a.broadcast_to(with_matrix(batch, a)), all_b = b.broadcast_to(with_matrix(batch, b));
    const Loops loops =
        collapse(batch, {leading(y.strides(), 2), leading(all_a.strides(), 2), leading(all_b.strides(), 2)});
    const auto launch_one = [&](const Loops& piece, const std::vector<int64_t>& offsets) {
      const Tensor one_a = matrices(a, piece.sizes, piece.strides[1], offsets[1]),
                   one_b = matrices(b, piece.sizes, piece.strides[2], offsets[2]),
                   one_y = matrices(y, piece.sizes, piece.strides[0], offsets[0]);
      for (int64_t first = 0; first < one_y.size(0); first += kMostMatrices) {
        const auto part = [&](const Tensor& x) { return x.slice(0, first, first + kMostMatrices); };
        launch_all(part(one_a), part(one_b), part(one_y));
      }
    };
    for_each_piece(loops, 1, launch_one);
  }

  static Shape with_matrix(Shape batch, const Tensor& x) {
    batch.push_back(x.shape()[x.rank() - 2]);
    batch.push_back(x.shape()[x.rank() - 1]);
    return batch;
  }
};

/// Where b is one matrix for the whole batch, a's batch and rows are just more rows: y[batch · m, n].
void fold_batch(Product& product) {
  const Tensor &a = product.a, &b = product.b;
  if (a.rank() == 2 || leading(b.shape(), 2).numel() != 1) return;
  const Loops rows = collapse(leading(a.shape(), 1), {leading(a.strides(), 1)});
  const Loops batch = collapse(leading(a.shape(), 2), {leading(a.strides(), 2)});
  if (rows.sizes.rank() > 1 && batch.sizes.rank() <= 1) return;  // a batched call will do
  const int64_t k = a.shape().back(), n = b.shape().back(), m = leading(a.shape(), 1).numel();
  product.a = with_unit_stride(a.reshape({m, k}));
  product.b =
      Tensor(b.storage(), {k, n}, {b.strides()[b.rank() - 2], b.strides()[b.rank() - 1]}, b.offset(), b.dtype());
  product.y = product.y.reshape({m, n});
}

}  // namespace

Tensor contraction(const KernelInfo& kernel, std::span<const Tensor> inputs, const MatmulOptions& options,
                   std::span<const Scalar> scalars, uint16_t variant, const Tensor& result) try {
  if (inputs.size() < 2) key_of(kernel, inputs, variant, 1);  // throws
  const Tensor &a = inputs[0], &b = inputs[1];
  const bool has_bias = inputs.size() > 2 && inputs[2].defined();
  const std::span<const Tensor> shown = inputs.first(has_bias ? 3 : 2);
  const KernelKey key =
      key_of(kernel, shown, with_epilogue(kernel, variant, epilogue_of(options.activation, has_bias)), 1);
  if (a.rank() == 0 || b.rank() == 0) {
    throw shape_error(kernel, shown, "operands of rank 1 or more", "Use mul() for scalars");
  }
  // As in NumPy, a vector is a row on the left and a column on the right, and its extra axis vanishes again.
  const auto transposed = [](const Tensor& x) { return x.transpose(-1, -2); };
  Tensor left = a.rank() == 1 ? a.unsqueeze(0) : options.transpose_a ? transposed(a) : a;
  Tensor right = b.rank() == 1 ? b.unsqueeze(1) : options.transpose_b ? transposed(b) : b;
  int64_t m = left.shape()[left.rank() - 2], n = right.shape().back();
  const int64_t k = left.shape().back();
  if (right.shape()[right.rank() - 2] != k) {
    throw shape_error(kernel, shown, "a[..., m, k] and b[..., k, n] (after transposing) with equal k",
                      "Set transpose_a or transpose_b, or reshape()");
  }
  if (has_bias && inputs[2].shape() != Shape{n}) {
    throw shape_error(kernel, shown, "a bias of shape " + Shape{n}.str(), "Use reshape()");
  }
  const Shape batch = ashlar::broadcast(kernel.name, leading(left.shape(), 2), leading(right.shape(), 2));
  Shape full = batch, result_shape = batch;
  if (a.rank() > 1) result_shape.push_back(m);
  if (b.rank() > 1) result_shape.push_back(n);
  // One column is one row of the transposed product, which lies in memory alike; the kernels have plans for rows.
  if (n == 1 && m > 1 && !has_bias) {
    left = transposed(std::exchange(right, transposed(left)));
    std::swap(m, n);
  }
  full.push_back(m);
  full.push_back(n);
  const Tensor y = result.defined() ? result.reshape(full) : Tensor::empty(full, a.dtype(), a.device());
  if (y.numel() == 0) return y.reshape(result_shape);

  const bool is_activated = options.activation != Activation::none;
  Tensor bias = has_bias ? dense_as(inputs[2], {n}) : Tensor();
  if (is_activated && !has_bias) bias = Tensor::zeros({n}, a.dtype(), a.device());

  const bool has_epilogue = is_activated || has_bias;
  Product product{kernel,
                  key,
                  has_epilogue ? with_epilogue(kernel, variant, "none") : key.variant,
                  std::move(left),
                  std::move(right),
                  std::move(bias),
                  y,
                  scalars,
                  {.allow_tf32 = options.allow_tf32}};
  if (k == 0) {  // a sum of nothing: as if k were 1 and everything 0
    product.a = Tensor::zeros({m, 1}, a.dtype(), a.device());
    product.b = Tensor::zeros({1, n}, a.dtype(), a.device());
  }
  product.a = with_unit_stride(std::move(product.a));
  product.b = with_unit_stride(std::move(product.b));
  if (!product.bias.defined())
    product.bias = Tensor(product.b.storage(), {1}, {1}, product.b.offset(), b.dtype());  // unread
  fold_batch(product);
  product.run();
  return y.shape() == result_shape ? y : y.reshape(result_shape);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

std::vector<Tensor> Contraction::call(const KernelInfo& kernel, const FormCall& call) try {
  const MatmulOptions options{.transpose_a = call.integer(0) != 0,
                              .transpose_b = call.integer(1) != 0,
                              .activation = static_cast<Activation>(call.integer(2)),
                              .allow_tf32 = call.integer(3) != 0};
  std::vector<Tensor> results(1);
  results[0] = contraction(kernel, call.inputs, options, call.scalars, call.variant);
  return results;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

CanonicalSizes Contraction::sizes(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return {outputs[0].size(0), outputs[0].size(1), outputs[0].size(2), inputs[0].size(2)};
}

std::vector<FormSample> Contraction::samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> sizes) {
  const int64_t batch = sizes[0], m = sizes[1], n = sizes[2], k = sizes[3];
  const auto of = [&](Activation activation) { return with_epilogue(kernel, 0, epilogue_of(activation, false)); };
  const Activation activation = key.variant == of(Activation::relu)   ? Activation::relu
                                : key.variant == of(Activation::gelu) ? Activation::gelu
                                                                      : Activation::none;
  const auto sample = [&](bool transpose_a, bool transpose_b) {
    FormSample one{
        {transpose_a ? Shape{batch, k, m} : Shape{batch, m, k}, transpose_b ? Shape{batch, n, k} : Shape{batch, k, n}},
        {int64_t{transpose_a}, int64_t{transpose_b}, static_cast<int64_t>(activation), int64_t{0}}};
    if (key.variant != with_epilogue(kernel, 0, "none")) one.inputs.push_back({n});
    return one;
  };
  return {sample(false, false), sample(false, true), sample(true, false)};
}

std::vector<std::vector<int64_t>> Contraction::check_shapes(const KernelInfo&) {
  return {{1, 1, 1, 1},      {2, 33, 65, 47},     {1, 127, 130, 33}, {1, 3, 130, 129},
          {1, 128, 256, 64}, {1, 257, 129, 1031}, {1, 256, 384, 96}, {3, 1, 257, 70}};
}

}  // namespace ashlar::forms
