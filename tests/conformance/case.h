// A conformance case: one use of one kernel, told once and read four times: by the correctness test, the gradient
// test, the benchmark and the support table.
//
// To add one, write a function that calls add_case() and call it from your program before run_conformance(). With
// "ashlar/ad.h" and "tests/conformance/reference.h":
//
// ```cpp source=tests/conformance/example_case.cpp
//   add_case(
//       {.kernel = "exp",
//        .name = "1023",
//        .inputs = {{.shape = {1023}}},
//        .call = [](Tensors x) { return std::vector{ashlar::exp(x[0])}; },
//        .reference = [](HostTensors x) { return std::vector{pointwise(x[0], [](double v) { return std::exp(v); })}; },
//        .tolerance = ulps(4),
//        .differentiable = [](Vars x) { return ad::exp(x[0]); }});
// ```
//
// Ready-made references are in reference.h; cases/unary.cpp is the shortest complete example.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"
#include "tests/conformance/values.h"

namespace ashlar::conformance {

class Random;

/// How an input lies in its storage. What lies between its elements is NaN (or the integers' maximum).
enum class Layout : uint8_t {
  dense,
  offset,           ///< dense, but beginning at element 3
  transposed,       ///< the last two axes swapped; rank 1: as stepped
  stepped,          ///< every second element along the last axis, beginning at the second
  flipped,          ///< backwards along the last axis
  broadcast_first,  ///< stride 0 along the first axis
  broadcast_last,   ///< stride 0 along the last axis
};

/// Where element [0, …, 0] lies in its storage and how far apart the others are, in elements.
struct Placement {
  Shape strides;
  int64_t offset = 0;
};

/// An axis of an input of the same case.
struct AxisOf {
  int input;
  int axis;
};

struct Input {
  Shape shape;
  Values values = {};
  Layout layout = Layout::dense;
  std::optional<DType> dtype = {};          ///< where it isn't the test's
  std::optional<Placement> placement = {};  ///< instead of `layout`: any view
  /// Values are indices into that axis, or lie around them: `values.high` follows its extent when sizes are drawn.
  std::optional<AxisOf> index_of = {};
};

/// A dense row-major array of doubles, each representable in `dtype`.
struct HostTensor {
  Shape shape;
  std::vector<double> values;
  DType dtype = DType::f32;
};

/// What an output must be.
struct Expected {
  Shape shape;
  std::vector<double> values;
  /// What the error of each element is measured against; empty: the values. For sums and contractions Σ|terms|.
  std::vector<double> magnitudes = {};
  std::optional<DType> dtype = {};  ///< where it isn't the test's
  /// Which elements `values` are, in row-major order; empty: all of them. For results too large to work out in double.
  std::vector<int64_t> positions = {};
};

using Tensors = std::span<const Tensor>;
using HostTensors = std::span<const HostTensor>;
using Vars = std::span<const Var>;

/// How far a result may lie from its reference, before the result is rounded to its storage type.
struct Tolerance {
  enum class Kind : uint8_t {
    bits,   ///< the reference's value rounded once, with the sign of zero
    ulp,    ///< bound × ulp of the arithmetic type (f32, or f64 for f64) at the magnitude; 0 is exact with the sign of
            ///< zero, but subnormal numbers may be flushed
    terms,  ///< bound × magnitude; for f64, bound × 2^-24 × magnitude
  };
  Kind kind = Kind::bits;
  double bound = 0;
};

inline constexpr Tolerance kExact{};
constexpr Tolerance ulps(double bound) { return {Tolerance::Kind::ulp, bound}; }
constexpr Tolerance terms(double bound = 1e-5) { return {Tolerance::Kind::terms, bound}; }

struct Case {
  std::string kernel;  ///< KernelInfo::name
  std::string name;    ///< what is particular about it, unique for its kernel
  std::vector<Input> inputs = {};
  std::vector<DType> dtypes{DType::f32, DType::f16, DType::bf16};

  /// The public function. An in-place one returns what it has changed.
  std::function<std::vector<Tensor>(Tensors)> call = {};
  /// The same in double, by straight loops. One Expected per tensor that `call` returns. Throws what `call` must throw
  /// where there's no result (a ShapeError for the largest of no elements).
  std::function<std::vector<Expected>(HostTensors)> reference = {};
  Tolerance tolerance = kExact;
  bool in_place = false;  ///< inputs may change

  /// The recording function, when gradients are to be checked against finite differences of `reference`.
  std::function<Var(Vars)> differentiable = {};
  std::vector<int> differentiated{0};                                       ///< the inputs that get gradients
  std::vector<DType> gradient_dtypes{DType::f32, DType::f16, DType::bf16};  ///< of `dtypes`, those to check them in
  /// Each gradient is one sum, rounded to its 16 bits only at the end: checked to that, however its terms cancel.
  bool gradient_is_rounded_once = false;
  /// Before gradients are worked out, a number of up to this size is rounded to 16 bits: the slope there will do.
  double gradient_rounds_up_to = 0;
  /// Gradients are differences of sums over the last axis of that input, which leave the more the longer it is.
  std::optional<int> gradient_sums_over = {};

  /// The random property test (`--draws`) redraws the sizes and layouts of every case (draw.h says how). True where
  /// the functions above hold sizes: then these stay as they are.
  bool fixed_shapes = false;
  /// The same with ranks, axes or options drawn anew, for the same test; gets this case. Null: they stay.
  std::function<Case(const Case&, Random&)> vary = {};
  /// False where that test had better not take the case for a pattern: gigabytes.
  bool is_drawn = true;
  /// It needs tensors of gigabytes, which a device may be too small for: then it is skipped.
  bool is_large = false;

  /// A result's size comes from computed elements (nonzero). Where nothing is computed (--unchecked), it may be
  /// refused.
  bool size_from_elements = false;

  /// Only timed by ashlar-bench (which checks the numbers first), not run by the tests.
  bool benchmark = false;
  /// Floating-point operations of one call; 0: the case is limited by memory, and its bytes count.
  double flops = 0;
};

/// Adds a case to this process's list. Throws ValueError when the case is incomplete or its name is taken.
void add_case(Case item);

/// Adds a gradient kernel's case, and the same with NaN, infinities and zeros among its first input, dy.
void add_gradient_case(Case item);

/// All cases so far, in the order they were added.
const std::vector<Case>& cases();

}  // namespace ashlar::conformance
