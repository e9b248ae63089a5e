// Kernels of Form::reduction: one that reduces whole tensors and parts of them alike, and three for a state of several
// values, which goes from pass to pass.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "schedules/reduction.h"

namespace ashlar::dsl {

/// A kernel of Form::reduction: which input elements part p reduces. Part p takes k in
/// [p·chunk, min((p + 1)·chunk, reduced)).
template <class Derived, ElementType T>
class ReductionKernel : public Kernel<Derived> {
 public:
  static constexpr bool has_parts = false;  ///< ReductionStages::has_parts
  In<T, 3> x{"x", strided};
  Scalar<int32_t> chunk{"chunk"};
  ReductionTunables tunables;

  void schedule(auto target) {
    auto& kernel = *static_cast<Derived*>(this);
    reduction(target, {total, axis->rvar(), kernel.y.func(), outer, part, inner, tunables, Derived::has_parts});
  }

 protected:
  // The axis over one chunk; call once, from algorithm().
  Axis& make_axis() {
    axis.emplace(Expr(Value(chunk)), "k");
    axis->where(Value(part) * chunk + *axis < Value(x.extent(1)));
    return *axis;
  }
  // The index along the reduced dimension, and the element there. The axis' condition keeps it inside, which Halide
  // can't see.
  Value index(const Axis& k) { return Value(part) * chunk + k; }
  Value element(const Axis& k) {
    return x(outer, Halide::unsafe_promise_clamped(Expr(index(k)), 0, x.extent(1) - 1), inner);
  }

  std::optional<Axis> axis;
  Stage total{"total"};
  Var outer{"outer"}, part{"part"}, inner{"inner"};
};

/// Element types of a state's values.
template <ElementType... E>
struct Types {
  static constexpr size_t count = sizeof...(E);
  using Index = std::index_sequence_for<E...>;
};

namespace detail {
template <ElementType A>
Halide::Type accumulator_type() {
  return Halide::type_of<typename Element<A>::Arithmetic>();
}
// With init in the types that the state is declared with: constants that meet it take them.
template <class R, ElementType A>
Merge merge_of() {
  Merge merge = R::merge(accumulator_type<A>());
  merge.init = []<ElementType... E>(Types<E...>, const Values& init) {
    size_t i = 0;
    Values typed;
    (typed.emplace_back(init.at(i++).as(accumulator_type<E>())), ...);
    return typed;
  }
  (typename R::template State<A>{}, merge.init);
  return merge;
}
inline std::string state_name(size_t i) { return "state" + std::to_string(i); }

// An output, or an input, for each value of a state.
template <class State, class Index = typename State::Index>
struct StateOutputs;
template <ElementType... E, size_t... I>
struct StateOutputs<Types<E...>, std::index_sequence<I...>> {
  using Tuple = OutTuple<3, E...>;
  static std::array<typename Tuple::Part, sizeof...(I)> names() { return {typename Tuple::Part{state_name(I)}...}; }
  static std::array<Value, sizeof...(I)> values(const Values& state) { return {state[I]...}; }
};
template <ElementType E, size_t I>
struct StateInput {
  In<E, 3> tensor{state_name(I)};
};
template <class State, class Index = typename State::Index>
struct StateInputs;
template <ElementType... E, size_t... I>
struct StateInputs<Types<E...>, std::index_sequence<I...>> : StateInput<E, I>... {
  template <class... At>
  Values operator()(const At&... at) const {
    return {StateInput<E, I>::tensor(at...)...};
  }
  const auto& first() const { return std::get<0>(std::tie(StateInput<E, I>::tensor...)); }
};

// R::Result<A>, or A where there is none.
template <class R, ElementType A>
struct ResultOf {
  using type = A;
};
template <class R, ElementType A>
requires requires { typename R::template Result<A>; }
struct ResultOf<R, A> {
  using type = typename R::template Result<A>;
};
}  // namespace detail

/// A reduction by a merge of the author's (dsl/merge.h). `R` says which:
///
///   struct Variance {
///     template <ElementType A> using State = Types<A, A, A>;   // A is the accumulator's type, f32 or f64
///     template <ElementType A> using Result = A;               // may be left out
///     Scalar<float> correction{"correction", 1.0f};            // what callers give beside x and its axes; may be none
///     static Merge merge(Halide::Type accumulator);            // an element is {x, its index}
///     Value finish(const Values& state) const;                 // the result of all elements' state
///     static void describe(auto& kernel) { kernel.formula("…").of_none(…).gradient("x", "…"); }
///   };
///   const bool registered = register_reduction<Variance, Pair<f32, f32>, Pair<f16, f32>>("var");
///
/// A pair is an element type and the accumulator's.
template <class R>
struct MergedReduction {
  template <ElementType A>
  using State = typename R::template State<A>;
  template <ElementType A>
  using Result = typename detail::ResultOf<R, A>::type;

  template <ElementType T, ElementType A>
  class Whole : public ReductionKernel<Whole<T, A>, T> {
   public:
    R merged;
    Out<Result<A>, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

    Whole() {
      this->form(Form::reduction).flops("static_cast<double>(shapes[0].numel())");
      const std::string name = NamedKernel::current();
      this->passes(name + "_parts", name + "_last");
      R::describe(*this);
    }
    void algorithm() {
      const Axis& k = this->make_axis();
      this->total(this->outer, this->part, this->inner) =
          reduce(k, {this->element(k), this->index(k)}, detail::merge_of<R, A>());
      y(this->outer, this->part, this->inner) = merged.finish(this->total(this->outer, this->part, this->inner));
    }
  };

  template <ElementType T, ElementType A>
  class Parts : public ReductionKernel<Parts<T, A>, T> {
    using Outputs = detail::StateOutputs<State<A>>;

   public:
    static constexpr bool has_parts = true;
    R merged;
    typename Outputs::Tuple y{"y", Outputs::names(), {this->x.size(0), any_size, this->x.size(2)}};

    Parts() { this->formula("the states of x[o,k,i], k in part p").form(Form::movement); }
    void algorithm() {
      const Axis& k = this->make_axis();
      this->total(this->outer, this->part, this->inner) =
          reduce(k, {this->element(k), this->index(k)}, detail::merge_of<R, A>());
      y.define({this->outer, this->part, this->inner},
               Outputs::values(this->total(this->outer, this->part, this->inner)));
    }
  };

  template <ElementType A>
  class Last : public Kernel<Last<A>> {
   public:
    detail::StateInputs<State<A>> states;
    Scalar<int32_t> chunk{"chunk"};
    ReductionTunables tunables;
    R merged;
    Out<Result<A>, 3> y{"y", {states.first().size(0), any_size, states.first().size(2)}};

    Last() { this->formula("the result of the states of all parts").form(Form::movement); }
    void algorithm() {
      axis.emplace(Expr(Value(chunk)), "k");
      axis->where(Value(part) * chunk + *axis < Value(states.first().extent(1)));
      const Expr k = Halide::unsafe_promise_clamped(Expr(Value(part) * chunk + *axis), 0, states.first().extent(1) - 1);
      const Merge of_elements = detail::merge_of<R, A>();
      total(outer, part, inner) =
          reduce(*axis, states(outer, k, inner),
                 {.init = of_elements.init, .step = of_elements.merge, .merge = of_elements.merge});
      y(outer, part, inner) = merged.finish(total(outer, part, inner));
    }
    void schedule(auto target) { reduction(target, {total, axis->rvar(), y.func(), outer, part, inner, tunables}); }

   private:
    std::optional<Axis> axis;
    Stage total{"total"};
    Var outer{"outer"}, part{"part"}, inner{"inner"};
  };
};

/// Registers `R` as `name`, with the two kernels for its passes over what is too long for one.
template <class R, class... Pairs>
bool register_reduction(const std::string& name) {
  using Kernels = MergedReduction<R>;
  constexpr bool has_f64 = (std::is_same_v<Pairs, Pair<f64, f64>> || ...);
  if (!register_kernel_pairs<Kernels::template Whole, Pairs...>(name) ||
      !register_kernel_pairs<Kernels::template Parts, Pairs...>(name + "_parts")) {
    return false;
  }
  if constexpr (has_f64) return register_kernel<Kernels::template Last, f32, f64>(name + "_last");
  return register_kernel<Kernels::template Last, f32>(name + "_last");
}

}  // namespace ashlar::dsl
