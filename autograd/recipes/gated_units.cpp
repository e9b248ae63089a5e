#include "autograd/recipes/gated_units.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"

namespace ashlar::recipes {

template <>
std::vector<Tensor> gated_unit_grad(GatedUnitKind unit, const Tensor& dy, const Tensor& gate, const Tensor& x) {
  if (unit == GatedUnitKind::swiglu) {
    const auto [dgate, dx] = swiglu_grad(dy, gate, x);
    return {dgate, dx};
  }
  const auto [dgate, dx] = geglu_grad(dy, gate, x);
  return {dgate, dx};
}

template <>
std::vector<Var> gated_unit_grad(GatedUnitKind unit, const Var& dy, const Var& gate, const Var& x) {
  const bool is_swiglu = unit == GatedUnitKind::swiglu;
  const Var upstream = ad::mul(dy, x);
  return {is_swiglu ? ad::silu_grad(upstream, gate) : ad::gelu_grad(upstream, gate),
          ad::mul(dy, is_swiglu ? ad::silu(gate) : ad::gelu(gate))};
}

}  // namespace ashlar::recipes
