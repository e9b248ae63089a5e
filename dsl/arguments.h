// A kernel's arguments: In, Out, OutTuple, Scratch, Scalar. Row-major, outermost dimension first.
#pragma once

#include <algorithm>
#include <optional>
#include <sstream>

#include "dsl/dim.h"
#include "dsl/element.h"

namespace ashlar::dsl {

/// Given to In: the innermost dimension may have any stride (0 when broadcast). Without it that stride is 1.
struct Strided {};
inline constexpr Strided strided{};

/// Given to In: the caller may leave this tensor out, and each of its elements then reads as `value`.
struct AbsentIs {
  double value;
};
constexpr AbsentIs absent_is(double value) { return {value}; }

namespace detail {
template <class... Index>
std::vector<Expr> innermost_first(const Index&... index) {
  std::vector<Expr> coordinates{Value(index).expr()...};
  std::reverse(coordinates.begin(), coordinates.end());
  return coordinates;
}
inline std::vector<Halide::Var> innermost_first(std::vector<Halide::Var> vars) {
  std::reverse(vars.begin(), vars.end());
  return vars;
}
/// A shape rule has a size for each dimension.
inline void check_rule(const std::string& tensor, int rank, const Sizes& sizes) {
  if (static_cast<int>(sizes.size()) == rank) return;
  mistake(tensor + " has rank " + std::to_string(rank) + ", and its shape rule " + std::to_string(sizes.size()) +
          (sizes.size() == 1 ? " size" : " sizes") +
          "; give one for each dimension: {rows, columns}, {x.size(0), …}, shape_of(x), or any_size where it is free");
}
/// The sizes of something that the kernel writes: inputs have named all of their axes.
inline void check_sizes_known(const std::string& tensor, const Sizes& sizes) {
  for (const Size& size : sizes) {
    if (size.is_free() && size.dim != nullptr) {
      mistake(tensor + " has the axis " + size.dim->name +
              ", which no input has: name it in an input's axes, declared before, or give any_size");
    }
  }
}
inline void check_dimension(const std::string& tensor, int rank, int i, const char* member) {
  if (i >= 0 && i < rank) return;
  mistake(tensor + "." + member + "(" + std::to_string(i) + "): " + tensor + " has rank " + std::to_string(rank) +
          (rank == 0 ? " and no dimensions" : ", so its dimensions are 0 to " + std::to_string(rank - 1)));
}
}  // namespace detail

/// An input tensor of rank N. A hidden outermost dimension {min −offset, extent offset + 1, stride 1} carries the
/// view's offset, because OpenCL can't bind a buffer at an arbitrary one; kernels never see it.
template <ElementType T, int N>
class In : public Halide::GeneratorInput<Halide::Buffer<typename Element<T>::Storage, N + 1>> {
  using Base = Halide::GeneratorInput<Halide::Buffer<typename Element<T>::Storage, N + 1>>;

 public:
  explicit In(const std::string& name) : In(name, Sizes{}, false) {}
  In(const std::string& name, Strided) : In(name, Sizes{}, true) {}
  /// With an axis for each dimension, or sizes that the caller's tensor must have; any_size where they are free.
  In(const std::string& name, Sizes sizes) : In(name, std::move(sizes), false) {}
  In(const std::string& name, Sizes sizes, Strided) : In(name, std::move(sizes), true) {}
  /// One that may be absent.
  In(const std::string& name, Sizes sizes, AbsentIs absent) : In(name, std::move(sizes), false) {
    Descriptor& descriptor = *Descriptor::current;
    descriptor.arguments.back().is_optional = true;
    absent_ = absent.value;
    given_.emplace(name + "_given");
    descriptor.arguments.push_back({name + "_given", Argument::Role::scalar, DType::i32, -1, 0});
    descriptor.arguments.back().given_of = index_;
  }

  /// The element at these indices, widened to the type that the kernel computes in.
  template <class... Index>
  Value operator()(const Index&... index) const {
    static_assert(sizeof...(Index) == N, "In: as many indices as the tensor has dimensions");
    std::vector<Expr> coordinates = detail::innermost_first(index...);
    coordinates.emplace_back(0);
    const Value loaded = Element<T>::load(Halide::Func(*this)(coordinates), Descriptor::target);
    if (!given_) return loaded;
    return select(Value(Expr(static_cast<const Halide::GeneratorInput<int32_t>&>(*given_))) != 0, loaded, absent_);
  }

  /// Halide's view of the i-th dimension, for schedules.
  auto axis(int i) const {
    detail::check_dimension(this->name(), N, i, "axis");
    return this->dim(N - 1 - i);
  }
  /// Elements by which the view starts after its storage's base.
  Expr offset() const { return -this->dim(N).min(); }
  Size size(int i) const {
    detail::check_dimension(this->name(), N, i, "size");
    return {"in[" + std::to_string(index_) + "][" + std::to_string(i) + "]", [this, i] { return axis(i).extent(); }};
  }
  Expr extent(int i) const { return axis(i).extent(); }
  /// The reduction index over dimension i.
  Axis reduce(int i) const {
    detail::check_dimension(this->name(), N, i, "reduce");
    return Axis(axis(i).extent(), this->name() + "_k" + std::to_string(i));
  }

 private:
  In(const std::string& name, Sizes sizes, bool is_strided) : Base(name) {
    if (!sizes.empty()) detail::check_rule(name, N, sizes);
    Descriptor& descriptor = *Descriptor::current;
    for (const ArgumentDescription& a : descriptor.arguments) index_ += a.role == Argument::Role::input;
    // The first to name an axis says how long it is, the others must agree.
    for (int i = 0; i < static_cast<int>(sizes.size()); i++) {
      Size& size = sizes[static_cast<size_t>(i)];
      if (!size.is_free() || size.dim == nullptr) continue;
      if (size.dim->size.is_free()) {
        size.dim->size = this->size(i);
      } else {
        size = {size.dim->size.text, size.dim->size.expr, size.dim};
      }
    }
    descriptor.arguments.push_back({name, Argument::Role::input, Element<T>::dtype, -1, N, sizes, -1, is_strided});
    descriptor.constraints.push_back([this, is_strided, sizes] {
      for (int i = 0; i < N; i++) {
        if (sizes.empty() || sizes[i].is_free())
          axis(i).set_min(0);
        else
          axis(i).set_bounds(0, sizes[i].expr());
      }
      if constexpr (N > 0) {
        if (is_strided) axis(N - 1).set_stride(Expr());
      }
      this->dim(N).set_stride(1);
      this->set_host_alignment(kBaseAlignment);
    });
  }
  static constexpr int kBaseAlignment = 16;
  int index_ = 0;
  double absent_ = 0;
  std::optional<Halide::GeneratorInput<int32_t>> given_;  // Halide finds it by its place inside of the kernel
};

/// shape_of(x): the sizes of a tensor of x's shape.
template <ElementType T, int N>
Sizes shape_of(const In<T, N>& x) {
  Sizes sizes;
  for (int i = 0; i < N; i++) sizes.push_back(x.size(i));
  return sizes;
}

namespace detail {
/// Shared by Out and Scratch: a dense row-major buffer that the kernel defines.
template <ElementType T, int N>
class Defined : public Halide::GeneratorOutput<Halide::Buffer<typename Element<T>::Storage, N>> {
  using Base = Halide::GeneratorOutput<Halide::Buffer<typename Element<T>::Storage, N>>;

 public:
  Defined(const std::string& name, Argument::Role role, Sizes sizes, int in_place_of) : Base(name) {
    check_rule(name, N, sizes);
    check_sizes_known(name, sizes);
    Descriptor::current->definitions.push_back({name, [this] { return Halide::Func(*this); }});
    Descriptor::current->arguments.push_back({name, role, Element<T>::dtype, -1, N, sizes, in_place_of});
    Descriptor::current->constraints.push_back([this, sizes] {
      for (int i = 0; i < N; i++) {
        auto dimension = this->dim(N - 1 - i);
        if (sizes[i].is_free())
          dimension.set_min(0);
        else
          dimension.set_bounds(0, sizes[i].expr());
      }
      // Outputs are bound at their own address: aligned on a GPU, anywhere on the CPU.
      if (on_gpu()) this->set_host_alignment(16);
    });
  }

  /// Assigned once: y(r, c) = value.
  class Reference {
   public:
    Reference(const Defined& owner, std::vector<Halide::Var> vars) : owner_(owner), vars_(std::move(vars)) {}
    Reference(const Reference&) = default;
    void operator=(const Reference& other) { *this = Value(other); }
    void operator=(const Value& value) {
      Halide::Func func = owner_;
      func(vars_) = Element<T>::store(value, Descriptor::target);
    }
    /// The reduction's result, through a stage of its own.
    void operator=(const Reduction& reduction) {
      Stage stage(owner_.name() + "_reduced");
      const std::vector<Value> index(vars_.rbegin(), vars_.rend());
      stage.reference(index) = reduction;
      *this = Value(stage.reference(index));
    }
    operator Value() const {
      Halide::Func func = owner_;
      return Element<T>::load(func(vars_), Descriptor::target);
    }

   private:
    const Defined& owner_;
    std::vector<Halide::Var> vars_;
  };

  template <std::same_as<Halide::Var>... Index>
  Reference operator()(const Index&... index) const {
    static_assert(sizeof...(Index) == N, "Out, Scratch: as many indices as the tensor has dimensions");
    return Reference(*this, innermost_first(std::vector<Halide::Var>{index...}));
  }
  Halide::Func func() const { return *this; }
};
}  // namespace detail

/// An output tensor: dense, row-major, its sizes given by the shape rule.
template <ElementType T, int N>
class Out : public detail::Defined<T, N> {
 public:
  Out(const std::string& name, Sizes sizes) : detail::Defined<T, N>(name, Argument::Role::output, sizes, -1) {}
};

/// An intermediate that lives in memory: taken from the pool by the caller, since GPU kernels never allocate. It is
/// read as it is written, after its own definition. Declared after the outputs.
template <ElementType T, int N>
class Scratch : public detail::Defined<T, N> {
 public:
  Scratch(const std::string& name, Sizes sizes) : detail::Defined<T, N>(name, Argument::Role::scratch, sizes, -1) {}

  using detail::Defined<T, N>::operator();
  /// The element at these indices, to read: any expressions, a reduction's axis among them.
  template <class... Index>
  requires(sizeof...(Index) == N && !(std::same_as<Index, Halide::Var> && ...)) Value operator()(
      const Index&... index) const {
    return Element<T>::load(this->func()(detail::innermost_first(index...)), Descriptor::target);
  }
};

/// Several outputs of one shape, of the element types T…, defined together. Each may overwrite an input: the loads of
/// an element come before its stores when the schedule says so (schedules/elementwise.h).
template <int N, ElementType... T>
class OutTuple : public Halide::GeneratorOutput<Halide::Func> {
 public:
  struct Part {
    std::string name;
    std::string in_place_of = {};  ///< an input's name, or empty
  };
  OutTuple(const std::string& name, std::array<Part, sizeof...(T)> parts, Sizes sizes)
      : Halide::GeneratorOutput<Halide::Func>(name, {Halide::type_of<typename Element<T>::Storage>()...}, N) {
    Descriptor& descriptor = *Descriptor::current;
    detail::check_rule(name, N, sizes);
    detail::check_sizes_known(name, sizes);
    descriptor.definitions.push_back({name, [this] { return Halide::Func(*this); }});
    constexpr DType dtypes[] = {Element<T>::dtype...};
    for (size_t i = 0; i < parts.size(); i++) {
      descriptor.arguments.push_back(
          {parts[i].name, Argument::Role::output, dtypes[i], -1, N, sizes,
           parts[i].in_place_of.empty() ? -1 : descriptor.input_index(parts[i].in_place_of)});
    }
    descriptor.constraints.push_back([this, sizes] {
      Halide::Func func = *this;
      // Halide holds the other parts to the first one's bounds itself.
      for (int i = 0; i < N; i++) {
        auto dimension = func.output_buffers()[0].dim(N - 1 - i);
        if (sizes[i].is_free())
          dimension.set_min(0);
        else
          dimension.set_bounds(0, sizes[i].expr());
      }
      for (Halide::OutputImageParam buffer : func.output_buffers()) {
        if (on_gpu()) buffer.set_host_alignment(16);
      }
    });
  }

  /// All parts at one index, in the order of their declaration.
  void define(const std::vector<Halide::Var>& index, const std::array<Value, sizeof...(T)>& values) {
    Halide::Func func = *this;
    func(detail::innermost_first(index)) = [&]<size_t... I>(std::index_sequence<I...>) {
      return Halide::Tuple(Element<T>::store(values[I], Descriptor::target)...);
    }
    (std::index_sequence_for<T...>{});
  }
  Halide::Func func() const { return *this; }
};

namespace detail {
template <class T>
struct ScalarElement;
template <>
struct ScalarElement<float> {
  static constexpr DType dtype = DType::f32;
};
template <>
struct ScalarElement<double> {
  static constexpr DType dtype = DType::f64;
};
template <>
struct ScalarElement<int32_t> {
  static constexpr DType dtype = DType::i32;
};
template <>
struct ScalarElement<int64_t> {
  static constexpr DType dtype = DType::i64;
};
}  // namespace detail

/// A number passed with each call. What changes between replays of a graph is an In<f32, 0> instead.
template <class T>
class Scalar : public Halide::GeneratorInput<T> {
 public:
  explicit Scalar(const std::string& name) : Halide::GeneratorInput<T>(name) {
    Descriptor::current->arguments.push_back({name, Argument::Role::scalar, detail::ScalarElement<T>::dtype, -1, 0});
  }
  /// One that the caller may leave out. The scalars and tensors declared after it need defaults, too.
  Scalar(const std::string& name, T otherwise) : Scalar(name) {
    std::ostringstream text;
    text << otherwise;
    Descriptor::current->arguments.back().default_value = text.str();
  }
  operator Value() const { return Value(Expr(static_cast<const Halide::GeneratorInput<T>&>(*this))); }
};

}  // namespace ashlar::dsl
