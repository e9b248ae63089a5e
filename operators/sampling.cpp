// Drawing one of many by their logits, on the device throughout (generators/sampling.cpp).
#include "ashlar/ops/sampling.h"

#include <array>
#include <cmath>
#include <sstream>

#include "ashlar/ops/argsort.h"
#include "ashlar/ops/binary.h"
#include "ashlar/ops/compare.h"
#include "ashlar/ops/cumsum.h"
#include "ashlar/ops/gather.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/softmax.h"
#include "ashlar/ops/ternary.h"
#include "ashlar/ops/unary.h"
#include "runtime/forms/check.h"
#include "runtime/memory/host_memory.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar {

// The k largest stand in order, so their running sums are the distribution function, and u's place in it is the number
// of sums that u · Σ p isn't below. Of a nucleus, Σ p ends with the first sum that reaches top_p.
Tensor sample_top_k(const Tensor& logits, const Tensor& state, int64_t k, double temperature, double top_p) try {
  constexpr const char* kName = "sample_top_k";
  forms::key_of(kernels::sample_top_k, {.inputs = std::array{logits, state}});
  const int64_t classes = logits.rank() == 0 ? 0 : logits.size(-1);
  if (classes == 0) {
    throw ShapeError(kName, "logits: " + logits.str(), "logits [..., classes] of one class or more",
                     "Give a row of logits for each draw");
  }
  if (k < 1 || k > classes || !(temperature > 0) || !std::isfinite(temperature) || !(top_p > 0) || top_p > 1) {
    std::ostringstream came;
    came << "k = " << k << " of " << classes << " classes, temperature = " << temperature << ", top_p = " << top_p;
    throw ValueError(kName, came.str(), "k from 1 to the number of classes, a temperature above 0, top_p in (0, 1]",
                     "Take argmax() for the most likely one");
  }
  const auto number = [&](double value, DType dtype) { return Tensor::full({}, value, dtype, logits.device()); };
  const TopkResult likely = topk(logits.to(DType::f32), k, -1, true);
  const Tensor sums = cumsum(softmax(affine(likely.values, 1 / temperature, 0), -1), -1);
  Tensor whole = sums.slice(-1, k - 1, k);
  if (top_p < 1) {
    whole = minimum(amin(where(le(number(top_p, DType::f32), sums), sums, whole), {-1}, true), whole);
  }
  Shape one = logits.shape();
  one[one.rank() - 1] = 1;
  const Tensor u = mul(philox_uniform(state, one), whole);
  // None is above u where u rounds up to the whole.
  const Tensor place =
      minimum(sum(le(sums, u).to(DType::i64), {-1}, true), number(static_cast<double>(k - 1), DType::i64));
  one.erase(one.rank() - 1);
  return gather(likely.indices, place, -1).reshape(one);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("sample_top_k");
}

}  // namespace ashlar
