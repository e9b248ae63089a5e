// Cases of operators that are composed of others (OperatorDescription::composed): what each part rounds adds up.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {

/// One use of a composed operator with one result. Inputs that are left out stand at the end.
struct ComposedCase {
  std::string kernel, name;
  std::vector<Input> inputs;
  std::function<Tensor(Tensors)> call;
  std::function<Var(Vars)> record;  ///< null: no gradients are checked
  std::function<Expected(HostTensors)> reference;
  std::vector<int> differentiated{0};
  std::vector<DType> dtypes{DType::f32, DType::f16, DType::bf16};
  Tolerance tolerance = terms();
  bool fixed_shapes = true;  ///< as Case::fixed_shapes
  std::vector<DType> gradient_dtypes{DType::f32, DType::f16, DType::bf16};
  bool is_drawn = true;  ///< as Case::is_drawn
};

/// The same with sizes drawn anew, too, where its functions hold none.
inline ComposedCase drawn(ComposedCase of) {
  of.fixed_shapes = false;
  return of;
}

/// The same with gradients in f32 alone, where parts that are rounded to 16 bits cancel.
inline ComposedCase cancelling(ComposedCase of) {
  of.gradient_dtypes = {DType::f32};
  return of;
}

/// How far 16-bit results may be off, in 1e-5: eight roundings of theirs.
inline double roundings_of(DType dtype) { return dtype == DType::f16 ? 400 : dtype == DType::bf16 ? 3200 : 1; }

inline void add_composed(const ComposedCase& of) {
  Case item{.kernel = of.kernel,
            .name = of.name,
            .inputs = of.inputs,
            .dtypes = of.dtypes,
            .call = [call = of.call](Tensors in) { return std::vector{call(in)}; },
            .reference =
                [reference = of.reference](HostTensors in) {
                  Expected y = reference(in);
                  if (y.dtype == DType::boolean) return std::vector{y};
                  if (y.magnitudes.empty()) y.magnitudes.resize(y.values.size());
                  for (size_t i = 0; i < y.values.size(); i++) {
                    y.magnitudes[i] =
                        (std::max(y.magnitudes[i], std::abs(y.values[i])) + 1e-30) * roundings_of(in[0].dtype);
                  }
                  return std::vector{y};
                },
            .tolerance = of.tolerance,
            .differentiated = of.differentiated,
            .gradient_dtypes = of.gradient_dtypes,
            .fixed_shapes = of.fixed_shapes,
            .is_drawn = of.is_drawn};
  if (of.record) item.differentiable = of.record;
  add_case(std::move(item));
}

}  // namespace ashlar::conformance
