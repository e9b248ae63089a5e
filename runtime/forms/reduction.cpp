#include "runtime/forms/reduction.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/forms/memory_order.h"
#include "runtime/forms/promotion.h"
#include "runtime/forms/unrounded_reduction.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar::forms {

namespace {

/// x[outer, reduced, inner]: where each of the three steps through memory.
struct Canonical {
  Shape sizes = Shape::filled(3, 1);
  Shape strides = {0, 1, 1};  // of no step at all: a multiple of anything
};

/// Loops over the kept and over the reduced axes, each collapsed on its own: their elements' order is kept.
struct Split {
  Loops kept, reduced;
};

Split split_axes(const Tensor& x, unsigned reduced_axes) {
  Shape sizes[2], strides[2];
  for (int i = 0; i < x.rank(); i++) {
    const int side = static_cast<int>(reduced_axes >> i & 1);
    sizes[side].push_back(x.shape()[i]);
    strides[side].push_back(x.strides()[i]);
  }
  return {collapse(sizes[0], {strides[0]}), collapse(sizes[1], {strides[1]})};
}

/// The view, where at most two kept and one reduced loop are left: any strides will do, so it needs no copy. Results of
/// up to `few` elements each are computed side by side.
Canonical canonical_of(const Split& split, int64_t few = 0) {
  Canonical result;
  const auto place = [&result](int position, const Loops& loops, int i) {
    result.sizes[position] = loops.sizes[i];
    result.strides[position] = loops.strides[0][i];
  };
  if (split.reduced.sizes.rank() == 1) place(1, split.reduced, 0);
  if (split.kept.sizes.rank() == 2) {
    place(0, split.kept, 0);
    place(2, split.kept, 1);
  } else if (split.kept.sizes.rank() == 1) {
    // Lanes walk along `inner`: it gets the kept loop when that one has the smaller steps, or their vectors would be
    // mostly empty along the other.
    const bool is_inner = split.kept.strides[0][0] < result.strides[1] || result.sizes[1] <= few;
    place(is_inner ? 2 : 0, split.kept, 0);
  }
  return result;
}

}  // namespace

// Few results would leave most of a device idle: a contiguous reduction (inner = 1) occupies one work-group, otherwise
// one serves a run of neighbouring results. Work-groups over columns, unlike those over rows, are so long that they
// should all be resident at once: a second round of them leaves the device half empty.
int64_t reduction_chunk(const Shape& x, DeviceKind kind) {
  const int64_t outer = x[0], reduced = x[1], inner = x[2];
  const bool is_cpu = kind == DeviceKind::cpu, is_contiguous = inner == 1;
  const bool by_vectors = inner >= 128 && inner % 4 == 0;
  const int64_t wanted_groups = is_cpu ? 16 : is_contiguous ? 4096 : by_vectors ? 512 : 1024;
  const int64_t run = is_cpu ? 64 : by_vectors ? 128 : 32;
  const int64_t least_chunk = is_cpu ? 65536 / std::min(inner, run) : is_contiguous ? 4096 : 256;
  const int64_t groups = is_contiguous ? outer : outer * detail::over(inner, run);
  const int64_t parts = std::min(wanted_groups / groups, reduced / least_chunk);
  if (parts <= 1) return reduced;
  const int64_t chunk = detail::over(reduced, parts), step = is_contiguous ? 1024 : 64;
  return detail::round_up(chunk, step);
}

namespace {

double result_of_none(OfNone result) {
  switch (result) {
    case OfNone::one:
      return 1;
    case OfNone::nan:
      return std::numeric_limits<double>::quiet_NaN();
    case OfNone::minus_infinity:
      return -std::numeric_limits<double>::infinity();
    case OfNone::refused:
    case OfNone::zero:
      break;
  }
  return 0;
}

/// The scalars of one pass in the kernel's order: what the form gives by name, the others from the caller's.
std::vector<Scalar> scalars_of(const KernelInfo& kernel, int64_t chunk, double scale, std::span<const Scalar> given) {
  std::vector<Scalar> scalars;
  size_t next = 0;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::scalar) continue;
    const std::string_view name = argument.name;
    if (name == "chunk") {
      scalars.emplace_back(chunk);
    } else if (name == "scale") {
      scalars.emplace_back(scale);
    } else {
      if (next == given.size()) {
        throw ValueError(kernel.name, std::to_string(given.size()) + " scalars", "one for " + std::string(name),
                         "Give a value for each scalar of the kernel but chunk and scale");
      }
      scalars.push_back(given[next++]);
    }
  }
  return scalars;
}

/// Runs the kernel once: x[outer, reduced, inner] → each output[outer, ⌈reduced / chunk⌉, inner]. Several inputs are
/// the values of one state.
std::vector<Tensor> run_pass(const KernelInfo& kernel, const KernelKey& key, std::span<const Tensor> x, int64_t chunk,
                             std::span<const Scalar> scalars) {
  const Shape& sizes = x[0].shape();
  const int64_t parts = detail::over(sizes[1], chunk);
  std::vector<Tensor> outputs;
  for (int o = 0; o < kernel.count(Argument::Role::output); o++) {
    const DType dtype = dtype_in(argument_of(kernel, Argument::Role::output, o), key);
    outputs.push_back(Tensor::empty({sizes[0], parts, sizes[2]}, dtype, x[0].device()));
  }
  launch(kernel, key, x, scalars, outputs);
  return outputs;
}

/// Integers and bool are reduced in i64.
bool is_reduced_in_i64(const KernelInfo& kernel, const Tensor& x) {
  if (!x.defined() || is_floating(x.dtype()) || x.dtype() == DType::i64) return false;
  KernelKey key{.elements = {DType::i64}};
  if (kernel.element_count == 2) key.elements[1] = DType::i64;
  return has_instance(kernel, key, x.device().kind);
}

/// And stay that, as in PyTorch, but for the largest and the smallest: what has no value without elements is one of
/// them.
bool is_promoted_to_i64(const KernelInfo& kernel, const Tensor& x) {
  return is_reduced_in_i64(kernel, x) && kernel.of_none != OfNone::refused;
}

/// A reduction of one tensor whose axes and dtype are settled.
struct Work {
  const KernelInfo& kernel;
  KernelKey key;
  double scale;  ///< 1 / the number of elements of one result
  std::span<const Scalar> scalars;
  std::optional<DType> rounded = {};  ///< the dtype that the caller wants, where it isn't the accumulator's
};

/// Whether the kernel reduces results of its own, or those of another kernel, in whatever order they come: then one of
/// its passes may take in one axis, and another the rest.
bool takes_axes_apart(const KernelInfo& kernel) { return kernel.parts == nullptr || kernel.parts == &kernel; }

/// The chunk of one pass.
int64_t chunk_of(const Work& work, const Shape& x, DeviceKind kind) {
  const bool are_few =
      x[2] == 1 && x[0] <= kFewRows && x[1] <= kElementsOfFewRows && size_of(work.key.elements[0]) <= 4;
  return are_few && kind == DeviceKind::cuda && takes_axes_apart(work.kernel) ? x[1] : reduction_chunk(x, kind);
}

/// canonical_of(): `few` of a kernel. A state of several values may depend on the order of its elements, and keeps it;
/// the largest and the smallest of a vector's lanes, NaN among them, take longer to find than their sum.
int64_t few_elements(const KernelInfo& kernel, Device device) {
  if (device.kind != DeviceKind::cpu) return 0;
  if (kernel.of_none == OfNone::refused) return 64;
  return takes_axes_apart(kernel) ? 32 : 1;
}

/// The kernel's other passes, over what its first has left in y[outer, parts, inner].
Work behind_first_pass(const Work& work, const Tensor& y) {
  const KernelInfo& last = work.kernel.last ? *work.kernel.last : work.kernel;
  KernelKey key = work.key;
  key.elements = {y.dtype(), last.element_count == 2 ? y.dtype() : KernelKey().elements[1]};
  return {last, key, work.scale, work.scalars, work.rounded};
}

/// The key of a call's last pass, which rounds its results itself where there is such an instance.
KernelKey key_of_last_pass(const Work& work, const KernelInfo& kernel, const Tensor& x) {
  if (!work.rounded) return work.key;
  const KernelKey rounded{.elements = {x.dtype(), *work.rounded}, .variant = work.key.variant};
  return has_instance(kernel, rounded, x.device().kind) ? rounded : work.key;
}

/// x[outer, reduced, inner] in one pass, or in two where it is long and the kernel has them for its dtype: y[outer, 1,
/// inner].
Tensor reduce_canonical(const Work& work, const Tensor& x) {
  const int64_t count = x.size(1);
  const bool is_in_one = work.kernel.parts != nullptr && !has_instance(*work.kernel.parts, work.key, x.device().kind);
  const int64_t chunk = is_in_one ? count : chunk_of(work, x.shape(), x.device().kind);
  const bool has_parts = chunk < count;
  const KernelInfo& first = has_parts && work.kernel.parts ? *work.kernel.parts : work.kernel;
  const KernelKey key = has_parts ? work.key : key_of_last_pass(work, first, x);
  std::vector<Tensor> y = run_pass(first, key, std::span(&x, 1), chunk,
                                   scalars_of(first, chunk, has_parts ? 1.0 : work.scale, work.scalars));
  if (!has_parts) return y[0];
  const Work last = behind_first_pass(work, y[0]);
  const int64_t parts = y[0].size(1);
  return run_pass(last.kernel, key_of_last_pass(last, last.kernel, y[0]), y, parts,
                  scalars_of(last.kernel, parts, work.scale, work.scalars))[0];
}

/// Of separated axes, a first pass over one of them: x[outer, reduced, inner] with all other loops in outer and inner.
struct FirstPass {
  Canonical canonical;
  Shape outer, inner;       ///< sizes of the loops that these consist of
  std::vector<int> places;  ///< which loops they are: kept ones, then reduced ones
  int reduced = -1;         ///< of the reduced ones, that which the pass takes in; -1: there is no such pass
};

/// The longest axis whose pass needs no copy, since it leaves the least to the next one.
FirstPass first_pass_of(const Split& split, int64_t few) {
  const int kept = split.kept.sizes.rank(), reduced = split.reduced.sizes.rank();
  const auto size = [&](int i) { return i < kept ? split.kept.sizes[i] : split.reduced.sizes[i - kept]; };
  const auto stride = [&](int i) { return i < kept ? split.kept.strides[0][i] : split.reduced.strides[0][i - kept]; };
  std::vector<int> longest_first;
  for (int r = 0; r < reduced; r++) longest_first.push_back(r);
  std::ranges::stable_sort(longest_first, [&](int a, int b) { return size(kept + a) > size(kept + b); });
  for (const int r : longest_first) {
    FirstPass pass;
    for (int i = 0; i < kept + reduced; i++) {
      if (i != kept + r) pass.places.push_back(i);
    }
    std::ranges::stable_sort(pass.places, [&](int a, int b) { return stride(a) > stride(b); });
    Shape sizes, strides;
    for (const int i : pass.places) {
      sizes.push_back(size(i));
      strides.push_back(stride(i));
    }
    const Split others{collapse(sizes, {strides}), {{size(kept + r)}, {{stride(kept + r)}}}};
    if (others.kept.sizes.rank() > 2) continue;
    pass.canonical = canonical_of(others, few);
    pass.reduced = r;
    int64_t outer = 1;
    for (int i = 0; i < sizes.rank(); i++) {
      const bool is_outer = outer < pass.canonical.sizes[0];
      (is_outer ? pass.outer : pass.inner).push_back(sizes[i]);
      if (is_outer) outer *= sizes[i];
    }
    return pass;
  }
  return {};
}

/// A copy of x without gaps, its axes in memory as they are, where that leaves fewer loops; else undefined.
Tensor without_gaps(const Tensor& x, unsigned reduced_axes, int loops) {
  const Shape axes = axes_in_memory(x, x.rank()), back = inverse_of(axes);
  const Tensor in_order = x.permute(axes);
  const Shape& sizes = in_order.shape();
  const Tensor imagined(x.storage(), sizes, dense_strides(sizes), 0, x.dtype());  // never read
  const Split dense = split_axes(imagined.permute(back), reduced_axes);
  if (dense.kept.sizes.rank() + dense.reduced.sizes.rank() >= loops) return {};
  return in_order.contiguous().permute(back);
}

/// Whether the kept loops change places on the CPU: vectors then go along what each result reduces, where that is one
/// long run and the kept loops stand in another order than in memory; or along the outer loop, where the inner one
/// would leave them mostly empty. Gathering elements of 16 results is 2 to 8 times as quick as that.
bool are_kept_loops_turned(const Split& split, Device device) {
  constexpr int64_t kLong = 64, kFewNeighbours = 16, kLeastRows = 32, kMostReduced = 512;
  if (device.kind != DeviceKind::cpu || split.kept.sizes.rank() != 2 || split.reduced.sizes.rank() != 1) return false;
  const Shape &kept = split.kept.sizes, &strides = split.kept.strides[0];
  const int64_t reduced = split.reduced.sizes[0];
  const bool is_one_run = strides[0] < strides[1] && split.reduced.strides[0][0] == 1 && reduced >= kLong;
  return is_one_run || (kept[1] < kFewNeighbours && kept[0] >= kLeastRows && reduced <= kMostReduced);
}

/// The reduced axes of `source` (a bit each): one dense result for each element of the kept ones, in their order.
/// Separated axes take a pass each and one over memory, where the kernel allows that and the strides do; else the
/// tensor is copied so that they are neighbours.
Tensor reduce_axes(const Work& work, const Tensor& source, unsigned reduced_axes) {
  Split split = split_axes(source, reduced_axes);
  if (takes_axes_apart(work.kernel)) {
    sort_by_first(split.reduced);
    split.reduced = collapse(split.reduced.sizes, split.reduced.strides);
  }
  const auto seen_as = [&](const Canonical& canonical) {
    return Tensor(source.storage(), canonical.sizes, canonical.strides, source.offset(), source.dtype());
  };
  const int kept_loops = split.kept.sizes.rank(), reduced_loops = split.reduced.sizes.rank();
  const int64_t few = few_elements(work.kernel, source.device());
  if (are_kept_loops_turned(split, source.device())) {
    std::swap(split.kept.sizes[0], split.kept.sizes[1]);
    std::swap(split.kept.strides[0][0], split.kept.strides[0][1]);
    const Shape turned = split.kept.sizes;
    split.kept = collapse(split.kept.sizes, split.kept.strides);
    const Tensor y = reduce_canonical(work, seen_as(canonical_of(split, few)));
    return y.reshape(turned).transpose(0, 1).contiguous();
  }
  if (kept_loops <= 2 && reduced_loops <= 1) return reduce_canonical(work, seen_as(canonical_of(split, few)));
  if (reduced_loops > 1 && takes_axes_apart(work.kernel)) {
    if (const FirstPass pass = first_pass_of(split, few); pass.reduced >= 0) {
      const Tensor x = seen_as(pass.canonical);
      const KernelInfo& kernel = work.kernel;
      const int64_t chunk = chunk_of(work, x.shape(), x.device().kind);
      const Tensor y =
          run_pass(kernel, work.key, std::span(&x, 1), chunk, scalars_of(kernel, chunk, 1.0, work.scalars))[0];
      // [outer …, parts, inner …] with its loops in their order again, the reduced ones and the parts last.
      Shape sizes = pass.outer, order;
      sizes.push_back(y.size(1));
      for (const int64_t size : pass.inner) sizes.push_back(size);
      std::vector<int> places(pass.places);
      const int loops = static_cast<int>(places.size()) + 1;
      places.insert(places.begin() + pass.outer.rank(), loops);
      for (int i = 0; i <= loops; i++) {
        const auto at = std::ranges::find(places, i);
        if (at != places.end()) order.push_back(at - places.begin());
      }
      const unsigned rest = (1u << loops) - (1u << kept_loops);
      return reduce_axes(behind_first_pass(work, y), y.reshape(sizes).permute(order), rest);
    }
  }
  if (const Tensor x = without_gaps(source, reduced_axes, kept_loops + reduced_loops); x.defined())
    return reduce_axes(work, x, reduced_axes);
  return reduce_canonical(work, as_reduction(source, reduced_axes));
}

}  // namespace

Tensor as_reduction(const Tensor& x, unsigned reduced) {
  Tensor source = without_negative_strides(x);
  Split split = split_axes(source, reduced);
  if (split.kept.sizes.rank() > 2 || split.reduced.sizes.rank() > 1) {
    Shape kept_first;
    for (unsigned side : {0u, 1u}) {
      for (int i = 0; i < x.rank(); i++) {
        if ((reduced >> i & 1) == side) kept_first.push_back(i);
      }
    }
    const int kept = x.rank() - __builtin_popcount(reduced);
    source = source.permute(kept_first).contiguous();
    split = split_axes(source, (1u << x.rank()) - (1u << kept));
  }
  const Canonical canonical = canonical_of(split);
  return Tensor(source.storage(), canonical.sizes, canonical.strides, source.offset(), source.dtype());
}

namespace {

Tensor reduce(const KernelInfo& kernel, const Tensor& given, const Axes& axes, bool keepdim,
              std::span<const Scalar> scalars, uint16_t variant, bool rounds) {
  const Tensor x = is_reduced_in_i64(kernel, given) ? given.to(DType::i64) : given;
  const std::span<const Tensor> inputs(&x, 1);
  KernelKey key = key_of(kernel, inputs, variant);
  const Argument& output = argument_of(kernel, Argument::Role::output, 0);
  // Elements are {input, accumulator}, or the input alone (argmax).
  const DType accumulator = x.dtype() == DType::f64 || x.dtype() == DType::i64 ? x.dtype() : DType::f32;
  if (kernel.element_count == 2) key.elements[1] = accumulator;
  if (const auto to = substitute_of(kernel, key, x.device().kind); to && is_floating(x.dtype())) {
    return reduce(kernel, x.to(to->compute), axes, keepdim, scalars, variant, rounds);
  }

  unsigned reduced_axes = 0;
  for (int64_t axis : axes) {
    const unsigned bit = 1u << normalize_reduced_axis(kernel.name, axis, x.rank());
    if (reduced_axes & bit) {
      throw ValueError(kernel.name, "axes " + axes.str(), "each axis at most once", "Remove the repeated axis");
    }
    reduced_axes |= bit;
  }
  if (axes.empty() || x.rank() == 0) reduced_axes = (1u << x.rank()) - 1;

  Shape shape;
  int64_t count = 1;
  for (int i = 0; i < x.rank(); i++) {
    const bool is_reduced = reduced_axes >> i & 1;
    if (is_reduced) count *= x.shape()[i];
    if (!is_reduced || keepdim) shape.push_back(is_reduced ? 1 : x.shape()[i]);
  }
  const DType dtype = dtype_in(output, key);
  const int64_t results = shape.numel();
  if (count == 0) {
    if (results > 0 && kernel.of_none == OfNone::refused) {
      throw shape_error(kernel, inputs, "at least one element along the reduced axes",
                        "Skip the call for empty tensors");
    }
    return Tensor::full(shape, result_of_none(kernel.of_none), dtype, x.device());
  }
  if (results == 0) return Tensor::empty(shape, dtype, x.device());
  const bool is_known = count == 1 && has_instance(kernel, key, x.device().kind);  // else it is a typed error below
  if (is_known && kernel.of_one == OfOne::place) return Tensor::zeros(shape, dtype, x.device());
  if (is_known && kernel.of_one == OfOne::element) {
    const DType wanted = rounds ? x.dtype() : dtype;
    return (wanted == x.dtype() ? x.clone() : x.to(wanted)).reshape(shape);
  }
  const Work work{kernel, key, 1.0 / static_cast<double>(count), scalars,
                  rounds && x.dtype() != accumulator ? std::optional(x.dtype()) : std::nullopt};
  return reduce_axes(work, without_negative_strides(x), reduced_axes).reshape(shape);
}

}  // namespace

Tensor reduction_unrounded(const KernelInfo& kernel, const Tensor& x, const Axes& axes, bool keepdim,
                           std::span<const Scalar> scalars, uint16_t variant) {
  return reduce(kernel, x, axes, keepdim, scalars, variant, /*rounds=*/false);
}

Tensor reduction(const KernelInfo& kernel, const Tensor& x, const Axes& axes, bool keepdim,
                 std::span<const Scalar> scalars, uint16_t variant) try {
  const Tensor y = reduce(kernel, x, axes, keepdim, scalars, variant, /*rounds=*/true);
  const bool is_fixed = argument_of(kernel, Argument::Role::output, 0).element < 0;
  return is_fixed || is_promoted_to_i64(kernel, x) ? y : y.to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

std::vector<Tensor> Reduction::call(const KernelInfo& kernel, const FormCall& call) try {
  if (call.inputs.size() != 1) key_of(kernel, call);  // throws
  std::vector<Tensor> results(1);
  results[0] = reduction(kernel, call.inputs[0], call.integers(0), call.integer(1) != 0, call.scalars, call.variant);
  return results;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

CanonicalSizes Reduction::sizes(std::span<const Tensor> inputs, std::span<const Tensor>) {
  return {inputs[0].size(0), inputs[0].size(1), inputs[0].size(2), 1};
}

std::vector<FormSample> Reduction::samples(const KernelInfo&, KernelKey, std::span<const int64_t> sizes) {
  return {{{{sizes[0], sizes[1], sizes[2]}}, {Shape{1}, int64_t{0}}}};
}

std::vector<std::vector<int64_t>> Reduction::check_shapes(const KernelInfo&) {
  return {{3, 33, 1}, {1, 70001, 1}, {2, 129, 5}, {1, 1025, 130}, {65, 7, 3}};
}

}  // namespace ashlar::forms
