// draw_by_forecast and update_forecasts (generators/forecast.cpp).
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

void check_state(const char* operation, const Tensor& forecasts, const Tensor& streaks, const Tensor& counts) {
  check_rank(operation, "forecasts", forecasts, 1);
  check_rank(operation, "streaks", streaks, 1);
  check_rank(operation, "counts", counts, 1);
  if (forecasts.numel() == 0 || streaks.shape() != forecasts.shape()) {
    throw ShapeError(operation, forecasts.str() + " and streaks of " + streaks.str(),
                     "one number each for at least one sample", "Make both for the whole data set");
  }
  constexpr int64_t kMost = 65535;
  if (counts.numel() >= 1 && counts.numel() <= kMost) return;
  throw ShapeError(operation, "counts: " + counts.str(), "1 to 65535 bins", "Start with 2048");
}

}  // namespace

Tensor draw_by_forecast(const Tensor& forecasts, const Tensor& streaks, const Tensor& counts, const Tensor& weights,
                        const Tensor& chances, int64_t patience, int64_t most) try {
  constexpr const char* kName = "draw_by_forecast";
  forms::key_of(kernels::draw_by_forecast, {.inputs = std::array{forecasts, streaks, counts, weights, chances}});
  check_state(kName, forecasts, streaks, counts);
  check_rank(kName, "weights", weights, 1);
  check_rank(kName, "chances", chances, 1);
  if (weights.numel() == 0) {
    throw ShapeError(kName, "weights: " + weights.str(), "at least one weight", "Give one for each part of the ranks");
  }
  if (patience < 0 || most < 0) {
    throw ValueError(kName, "patience = " + std::to_string(patience) + ", most = " + std::to_string(most),
                     "numbers of 0 or more", "Give both the largest i32 for no limit");
  }
  const Device device = forecasts.device();
  const Tensor known = forecasts.contiguous(), visits = streaks.contiguous(), have = counts.contiguous();
  const Tensor bin_weights = Tensor::empty(counts.shape(), DType::i32, device);
  launch(kernels::forecast_bin_weights, {.elements = {DType::i32}},
         std::array{have, cumsum(have), weights.contiguous()}, {}, std::span(&bin_weights, 1));
  const KernelKey key{.elements = {DType::f32}};
  const std::array<Scalar, 2> limits{std::min<int64_t>(patience, INT32_MAX), std::min<int64_t>(most, INT32_MAX)};
  const Tensor sums = Tensor::empty({detail::over(forecasts.numel(), kForecastGroup)}, DType::i64, device);
  launch(kernels::forecast_group_weights, key, std::array{known, visits, bin_weights}, limits, std::span(&sums, 1));
  const Tensor rows = Tensor::empty(chances.shape(), DType::i64, device);
  launch(kernels::forecast_locate, key, std::array{known, visits, bin_weights, cumsum(sums), chances.contiguous()},
         limits, std::span(&rows, 1));
  return rows;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("draw_by_forecast");
}

Tensor update_forecasts(const Tensor& forecasts, const Tensor& streaks, const Tensor& counts, const Tensor& rows,
                        const Tensor& losses, const Tensor& level, double age, double trend, double hard) try {
  constexpr const char* kName = "update_forecasts";
  forms::key_of(kernels::update_forecasts, {.inputs = std::array{forecasts, streaks, counts, rows, losses, level}});
  check_state(kName, forecasts, streaks, counts);
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
  const KernelKey key{.elements = {DType::f32}};
  if (rows.numel() == 0) return fresh;
  launch(kernels::forecast_visit, key, std::array{known, visits, have, cumsum(have), at, losses.contiguous(), level},
         scalars, visit);
  launch(kernels::forecast_recount, {.elements = {DType::i32}}, std::array{have, from, to}, {}, std::span(&have, 1));
  launch(kernels::forecast_store, key, std::array{known, visits, at, fresh, streak, to}, {}, std::array{known, visits});
  for (const auto& [state, changed] : {std::pair(forecasts, known), {streaks, visits}, {counts, have}}) {
    if (!whole(state)) state.copy_(changed);
  }
  return fresh;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("update_forecasts");
}

}  // namespace ashlar
