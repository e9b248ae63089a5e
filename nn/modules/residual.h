// A module beside the identity.
#pragma once

#include <utility>

#include "ashlar/ad.h"
#include "nn/module.h"
#include "nn/modules/residual_stream.h"

namespace ashlar::nn {

/// x + inner(x, …), child "inner" (He, Zhang, Ren and Sun 2016). In a Sequential a normalisation behind it adds, too.
template <class M>
class Residual : public ModuleOf<Residual<M>> {
 public:
  explicit Residual(M inner) : inner_(std::move(inner)) {}

  template <class... More>
  requires(requires(const M& inner, const Var& x, const More&... more) { inner.forward(x, more...); }) Var
      forward(const Var& x, const More&... more)
  const { return ad::add(x, inner_.forward(x, more...)); }
  /// What forward(x) adds up.
  Terms terms(const Var& x) const requires(LayerModule<M>) { return {x, inner_.forward(x)}; }
  /// The same of x + residual, which `inner` works out.
  Terms terms_of_sum(const Var& x, const Var& residual) const
      requires(requires(const M& inner) { inner.of_sum(x, residual); }) {
    const auto [y, h] = inner_.of_sum(x, residual);
    return {h, y};
  }
  const M& inner() const { return inner_; }

 protected:
  void members(Members& members) override { members.child("inner", inner_); }

 private:
  M inner_;
};

}  // namespace ashlar::nn
