#include "tests/conformance/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/memory/guard_bands.h"
#include "runtime/tensor/storage.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {
namespace {

// NaN's payload is nobody's business: two NaN are the same.
bool same_values(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
  });
}

// The inputs as a GPU that flushes subnormals sees them; empty when there are none.
std::vector<HostTensor> flushed_inputs(HostTensors inputs) {
  std::vector<HostTensor> flushed(inputs.begin(), inputs.end());
  bool any = false;
  for (HostTensor& input : flushed) {
    if (!is_floating(input.dtype) || input.dtype == DType::f64) continue;
    for (double& value : input.values) {
      if (value == 0 || !(std::abs(value) < smallest_normal(DType::f32))) continue;
      value = std::copysign(0.0, value);
      any = true;
    }
  }
  if (!any) flushed.clear();
  return flushed;
}

std::vector<Made> make_all(const Case& item, DType dtype, Device device) {
  const uint64_t seed = seed_of(item.kernel + "/" + item.name);
  std::vector<Made> made;
  for (size_t i = 0; i < item.inputs.size(); ++i) made.push_back(make(item.inputs[i], dtype, device, seed + i));
  return made;
}

std::vector<Tensor> call(const Case& item, const std::vector<Made>& made) {
  std::vector<Tensor> tensors;
  for (const Made& one : made) tensors.push_back(one.tensor);
  return item.call(tensors);
}

}  // namespace

bool same_elements(const Tensor& a, const Tensor& b) {
  return element_bytes(a) == element_bytes(b) || same_values(download(a).values, download(b).values);
}

std::string check_outputs(const Case& item, HostTensors inputs, Tensors outputs, DType dtype, Device device) {
  const std::vector<Expected> expected = item.reference(inputs);
  if (outputs.size() != expected.size()) {
    return std::to_string(outputs.size()) + " outputs, the reference has " + std::to_string(expected.size());
  }
  std::vector<Expected> flushed;
  if (device.kind != DeviceKind::cpu && item.tolerance.kind != Tolerance::Kind::bits) {
    if (const auto zeroed = flushed_inputs(inputs); !zeroed.empty()) flushed = item.reference(zeroed);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!(outputs[i].device() == device)) return "output " + std::to_string(i) + " is on " + outputs[i].device().str();
    const std::string report =
        compare(download(outputs[i]), expected[i], flushed.empty() ? nullptr : &flushed[i], item.tolerance, dtype);
    if (!report.empty()) return "output " + std::to_string(i) + ": " + report;
  }
  return {};
}

namespace {

std::string check_calls(const Case& item, DType dtype, Device device) {
  std::vector<Made> made = make_all(item, dtype, device);
  std::vector<std::vector<std::byte>> before;
  for (const Made& one : made) before.push_back(storage_bytes(one.tensor));
  const std::vector<Tensor> outputs = call(item, made);
  std::vector<HostTensor> hosts;
  for (Made& one : made) hosts.push_back(std::move(one.host));
  std::string report = check_outputs(item, hosts, outputs, dtype, device);
  if (!report.empty()) return report;

  for (size_t i = 0; i < made.size(); ++i) {
    // An in-place function may change what it returns.
    const auto& storage = made[i].tensor.storage();
    const bool is_result = std::ranges::any_of(outputs, [&](const Tensor& y) { return y.storage() == storage; });
    if ((item.in_place && is_result) || storage_bytes(made[i].tensor) == before[i]) continue;
    return "input " + std::to_string(i) + " was changed";
  }
  if (item.in_place) made = make_all(item, dtype, device);
  const std::vector<Tensor> again = call(item, made);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i >= again.size() || !same_elements(outputs[i], again[i])) {
      return "output " + std::to_string(i) + " differs between two calls with the same inputs";
    }
  }
  return {};
}

}  // namespace

std::string with_guard_bands(const std::function<std::string()>& check) {
  const bool before = detail::set_guard_bands(true);
  detail::take_guard_reports();
  std::string report;
  try {
    report = check();
  } catch (...) {
    detail::set_guard_bands(before);
    throw;
  }
  detail::set_guard_bands(before);
  for (const std::string& line : detail::take_guard_reports()) report += (report.empty() ? "" : "\n") + line;
  return report;
}

std::string check_result(const Case& item, DType dtype, Device device) {
  return with_guard_bands([&] { return check_calls(item, dtype, device); });
}

}  // namespace ashlar::conformance
