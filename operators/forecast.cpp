// forecast_weights, draw_by_forecast and update_forecasts (generators/forecast.cpp).
#include "ashlar/ops/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "ashlar/ops/cumsum.h"
#include "generators/forecast.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

void check_rank(const char* operation, const char* name, const Tensor& tensor, int rank) {
  if (tensor.rank() == rank) return;
  throw ShapeError(operation, std::string(name) + ": " + tensor.str(), "a tensor of rank " + std::to_string(rank),
                   "Bring it there with reshape()");
}

void check_samples(const char* operation, const Tensor& forecasts, const Tensor& streaks) {
  check_rank(operation, "forecasts", forecasts, 1);
  check_rank(operation, "streaks", streaks, 1);
  if (forecasts.numel() == 0 || streaks.shape() != forecasts.shape()) {
    throw ShapeError(operation, forecasts.str() + " and streaks of " + streaks.str(),
                     "one number each for at least one sample", "Make both for the whole data set");
  }
}

void check_bins(const char* operation, const char* name, const Tensor& bins) {
  check_rank(operation, name, bins, 1);
  constexpr int64_t kMost = 65535;
  if (bins.numel() >= 1 && bins.numel() <= kMost) return;
  throw ShapeError(operation, std::string(name) + ": " + bins.str(), "1 to 65535 bins", "Start with 2048");
}

int64_t groups_of(const Tensor& forecasts) { return detail::over(forecasts.numel(), kForecastGroup); }

/// What the kernels know of samples that stay hard.
std::array<Scalar, 2> limits_of(const char* operation, int64_t patience, int64_t most) {
  if (patience < 0 || most < 0) {
    throw ValueError(operation, "patience = " + std::to_string(patience) + ", most = " + std::to_string(most),
                     "numbers of 0 or more", "Give both the largest i32 for no limit");
  }
  return {std::min<int64_t>(patience, INT32_MAX), std::min<int64_t>(most, INT32_MAX)};
}

const KernelKey kKey{.elements = {DType::f32}};

}  // namespace

ForecastWeightsResult forecast_weights(const Tensor& forecasts, const Tensor& streaks, const Tensor& counts,
                                       const Tensor& weights, int64_t patience, int64_t most) try {
  constexpr const char* kName = "forecast_weights";
  forms::key_of(kernels::forecast_weights, {.inputs = std::array{forecasts, streaks, counts, weights}});
  check_samples(kName, forecasts, streaks);
  check_bins(kName, "counts", counts);
  check_rank(kName, "weights", weights, 1);
  if (weights.numel() == 0) {
    throw ShapeError(kName, "weights: " + weights.str(), "at least one weight", "Give one for each part of the ranks");
  }
  const std::array<Scalar, 2> limits = limits_of(kName, patience, most);
  const Device device = forecasts.device();
  const Tensor have = counts.contiguous();
  const Tensor bin_weights = Tensor::empty(counts.shape(), DType::i32, device);
  launch(kernels::forecast_bin_weights, {.elements = {DType::i32}},
         std::array{have, cumsum(have), weights.contiguous()}, {}, std::span(&bin_weights, 1));
  const Tensor sums = Tensor::empty({groups_of(forecasts)}, DType::i64, device);
  launch(kernels::forecast_group_weights, kKey, std::array{forecasts.contiguous(), streaks.contiguous(), bin_weights},
         limits, std::span(&sums, 1));
  return {bin_weights, cumsum(sums)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("forecast_weights");
}

Tensor draw_by_forecast(const Tensor& forecasts, const Tensor& streaks, const Tensor& bin_weights, const Tensor& ends,
                        const Tensor& chances, int64_t patience, int64_t most) try {
  constexpr const char* kName = "draw_by_forecast";
  forms::key_of(kernels::draw_by_forecast, {.inputs = std::array{forecasts, streaks, bin_weights, ends, chances}});
  check_samples(kName, forecasts, streaks);
  check_bins(kName, "bin_weights", bin_weights);
  check_rank(kName, "ends", ends, 1);
  check_rank(kName, "chances", chances, 1);
  if (ends.numel() != groups_of(forecasts)) {
    throw ShapeError(kName, "ends: " + ends.str(),
                     std::to_string(groups_of(forecasts)) + " of them for forecasts of " + forecasts.str(),
                     "Give what forecast_weights() says of the same samples");
  }
  const std::array<Scalar, 2> limits = limits_of(kName, patience, most);
  const Tensor rows = Tensor::empty(chances.shape(), DType::i64, forecasts.device());
  launch(kernels::forecast_locate, kKey,
         std::array{forecasts.contiguous(), streaks.contiguous(), bin_weights.contiguous(), ends.contiguous(),
                    chances.contiguous()},
         limits, std::span(&rows, 1));
  return rows;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("draw_by_forecast");
}

Tensor update_forecasts(const Tensor& forecasts, const Tensor& streaks, const Tensor& counts, const Tensor& rows,
                        const Tensor& losses, const Tensor& level, double age, double trend, double hard) try {
  constexpr const char* kName = "update_forecasts";
  forms::key_of(kernels::update_forecasts, {.inputs = std::array{forecasts, streaks, counts, rows, losses, level}});
  check_samples(kName, forecasts, streaks);
  check_bins(kName, "counts", counts);
  check_rank(kName, "rows", rows, 1);
  check_rank(kName, "losses", losses, 1);
  check_rank(kName, "level", level, 0);
  if (losses.shape() != rows.shape()) {
    throw ShapeError(kName, "losses of " + losses.str() + " for rows of " + rows.str(), "a loss for each row",
                     "Give the losses of the batch without adding them up");
  }
  if (!std::isfinite(age) || !std::isfinite(trend) || !(hard >= 0 && hard <= 1)) {
    throw ValueError(
        kName,
        "age = " + std::to_string(age) + ", trend = " + std::to_string(trend) + ", hard = " + std::to_string(hard),
        "finite numbers, and a part of the ranks from 0 to 1", "0, 0 and 1 keep the last loss");
  }
  const Device device = forecasts.device();
  // Views with gaps, or that begin within their storage, are changed as copies: a kernel that writes some elements only
  // needs its outputs to be the very memory of its inputs.
  const auto whole = [](const Tensor& state) { return state.is_contiguous() && state.offset() == 0; };
  const auto own = [&](const Tensor& state) { return whole(state) ? state : state.clone(); };
  const Tensor known = own(forecasts), visits = own(streaks), have = own(counts), at = rows.contiguous();
  const auto of_batch = [&](DType dtype) { return Tensor::empty(rows.shape(), dtype, device); };
  const std::array visit{of_batch(DType::f32), of_batch(DType::i32), of_batch(DType::i32), of_batch(DType::i32)};
  const auto& [fresh, streak, from, to] = visit;
  const auto from_rank = static_cast<int64_t>(std::ceil(hard * 2 * static_cast<double>(forecasts.numel())));
  const std::array<Scalar, 3> scalars{age, trend, from_rank};
  if (rows.numel() == 0) return fresh;
  launch(kernels::forecast_visit, kKey, std::array{known, visits, have, cumsum(have), at, losses.contiguous(), level},
         scalars, visit);
  launch(kernels::forecast_recount, {.elements = {DType::i32}}, std::array{have, from, to}, {}, std::span(&have, 1));
  launch(kernels::forecast_store, kKey, std::array{known, visits, at, fresh, streak, to}, {},
         std::array{known, visits});
  for (const auto& [state, changed] : {std::pair(forecasts, known), {streaks, visits}, {counts, have}}) {
    if (!whole(state)) state.copy_(changed);
  }
  return fresh;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("update_forecasts");
}

}  // namespace ashlar
