// Finding the first operation whose result isn't finite.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/var.h"
#include "runtime/support/error.h"

namespace ashlar {

/// A number that isn't finite, where an AnomalyMode lives.
struct AnomalyError : Error {
  using Error::Error;
};

enum class Anomaly : uint8_t {
  nan,  ///< for networks that compute with infinities, as masks of attention may
  nan_or_infinity,
};

/// While one lives, every operation that its thread records (or would record, but for NoGrad) is looked at, and every
/// gradient that backward() and grad() compute. The first NaN or infinity is an AnomalyError that names the operation,
/// its inputs' shapes and whether they were as they should be: so either the operation made it, or it came with data or
/// weights. As torch.autograd.detect_anomaly, which looks at gradients alone.
///
/// For finding errors: it waits for the device after each operation, so nothing can be captured meanwhile, and fit()
/// and the trainers don't replay.
class AnomalyMode {
 public:
  explicit AnomalyMode(Anomaly what = Anomaly::nan_or_infinity);
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  uint8_t previous_;
};

/// Whether this thread has one.
bool anomaly_mode();

namespace detail {

/// Throws AnomalyError unless all values that `operation` made are as they should be.
void check_forward(const char* operation, std::span<const Var> inputs, std::span<const Tensor> values);
/// The same for gradients that arrived at its outputs, and those that it made of them; undefined ones are passed over.
void check_arrived(const char* operation, int output, const Tensor& gradient);
void check_backward(const char* operation, int input, const Tensor& gradient);

}  // namespace detail
}  // namespace ashlar
