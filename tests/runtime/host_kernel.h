// Kernels written by hand with the interface of compiled ones, to see exactly what the gate hands over.
#pragma once

#include <HalideRuntime.h>

#include <array>
#include <vector>

#include "runtime/forms/plain.h"
#include "runtime/launch/known_calls.h"
#include "runtime/launch/launch.h"

namespace ashlar::testing {

/// y[i] = scale · x[i], element_count 1, ranks as given; the only instance is f32 on the CPU's baseline.
inline constexpr Argument kScaleArguments[] = {
    {"x", Argument::Role::input, 0, DType::f32, 1, -1, true},
    {"scale", Argument::Role::scalar, -1, DType::f32, 0, -1},
    {"y", Argument::Role::output, 0, DType::f32, 1, -1},
};

/// A KernelInfo around one function.
class HostKernel {
 public:
  using Function = int (*)(void** arguments);

  HostKernel(const char* name, std::span<const Argument> arguments, Function function,
             const char* (*shape_rule)(const Shape*, Shape*) = nullptr)
      : instance_{KernelKey{}.packed(), function, name}, table_{&instance_, 1} {
    detail::forget_known_calls();
    info_ = {kTablesVersion, name, "", &form_of<forms::Plain>, arguments, {}, 1, shape_rule, nullptr, {&table_}};
  }
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

  const KernelInfo& info() const { return info_; }

  void operator()(std::vector<Tensor> inputs, std::vector<Scalar> scalars, std::vector<Tensor> outputs) const {
    launch(info_, KernelKey{}, inputs, scalars, outputs);
  }

 private:
  KernelInstance instance_;
  TargetTable table_;
  KernelInfo info_;
};

inline halide_buffer_t& buffer_at(void** arguments, int i) { return *static_cast<halide_buffer_t*>(arguments[i]); }
inline void* context_at(void** arguments) { return *static_cast<void**>(arguments[0]); }

/// An element of an input as compiled kernels read it: base, hidden offset dimension at coordinate 0, coordinates.
template <class T>
T& element(halide_buffer_t& b, std::initializer_list<int> coordinates, bool input = true) {
  int64_t index = 0;
  int d = 0;
  for (int c : coordinates) {
    index += int64_t{c - b.dim[d].min} * b.dim[d].stride;
    ++d;
  }
  if (input) index += int64_t{0 - b.dim[d].min} * b.dim[d].stride;
  return reinterpret_cast<T*>(b.host)[index];
}

inline int scale_kernel(void** arguments) {
  halide_buffer_t& x = buffer_at(arguments, 1);
  const float scale = *static_cast<float*>(arguments[2]);
  halide_buffer_t& y = buffer_at(arguments, 3);
  for (int i = 0; i < y.dim[0].extent; ++i) element<float>(y, {i}, false) = scale * element<float>(x, {i});
  return 0;
}

}  // namespace ashlar::testing
