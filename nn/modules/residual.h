// A module beside the identity.
#pragma once

#include <utility>

#include "ashlar/ad.h"
#include "nn/module.h"

namespace ashlar::nn {

/// x + inner(x, …), child "inner" (He, Zhang, Ren and Sun 2016).
template <class M>
class Residual : public ModuleOf<Residual<M>> {
 public:
  explicit Residual(M inner) : inner_(std::move(inner)) {}

  template <class... More>
  requires(requires(const M& inner, const Var& x, const More&... more) { inner.forward(x, more...); }) Var
      forward(const Var& x, const More&... more)
  const { return ad::add(x, inner_.forward(x, more...)); }
  const M& inner() const { return inner_; }

 protected:
  void members(Members& members) override { members.child("inner", inner_); }

 private:
  M inner_;
};

}  // namespace ashlar::nn
