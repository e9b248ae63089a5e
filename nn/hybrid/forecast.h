// Forecasts of weights as combinations of snapshots: the coefficients, in double, on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/hybrid/options.h"

namespace ashlar::nn {

/// Every forecaster here foretells a point in the span of the snapshots x_0 … x_n, taken `stride` steps apart, the last
/// one now: Σ c_j x_j with Σ c_j = 1, the same c for all weights. So a forecast is one product on the device.
///
///   last_move: x_n + horizon / stride · (x_n - x_{n-1})
///   direction: the same over the window: x_n + horizon / (n stride) · (x_n - x_0)
///   line: for each weight the value at n + horizon / stride of the least-squares line through (j, x_j)
///
/// Throws ValueError on a forecaster that isn't one of these.
std::vector<double> line_coefficients(Forecaster forecaster, int64_t snapshots, int64_t stride, int64_t horizon);

/// Dynamic mode decomposition (Schmid 2010) by the method of snapshots: the linear map that takes each move
/// v_j = x_{j+1} - x_j to the next, restricted to the `rank` largest principal directions of the moves, is applied
/// `moves` times more to the last move. The sum of foretold moves is never longer than `moves` times the last one.
/// `gram`: row-major [n, n], gram[i n + j] = v_i · v_j, of n ≥ 2 moves.
std::vector<double> mode_coefficients(std::span<const double> gram, int64_t rank, int64_t moves);

}  // namespace ashlar::nn
