#include "tests/conformance/check.h"

#include <algorithm>
#include <cmath>

#include "runtime/memory/guard_bands.h"
#include "runtime/tensor/storage.h"

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

bool may_be_flushed(const Case& item, Device device) {
  return device.kind != DeviceKind::cpu && item.tolerance.kind != Tolerance::Kind::bits;
}

std::vector<Comparison> comparisons(const Case& item, HostTensors inputs, DType dtype) {
  std::vector<Comparison> all;
  for (Expected& expected : item.reference(inputs)) all.emplace_back(std::move(expected), item.tolerance, dtype);
  return all;
}

// With the reference of `inputs` without subnormals; empty where there are none.
std::vector<Comparison> flushed_comparisons(const Case& item, HostTensors inputs, DType dtype) {
  const std::vector<HostTensor> zeroed = flushed_inputs(inputs);
  return zeroed.empty() ? std::vector<Comparison>{} : comparisons(item, zeroed, dtype);
}

// `flushed` may be empty, or null.
std::string compare_all(Tensors outputs, const std::vector<Comparison>& expected,
                        const std::vector<Comparison>* flushed, Device device) {
  if (outputs.size() != expected.size()) {
    return std::to_string(outputs.size()) + " outputs, the reference has " + std::to_string(expected.size());
  }
  const bool may_be_other = flushed && !flushed->empty();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!(outputs[i].device() == device)) return "output " + std::to_string(i) + " is on " + outputs[i].device().str();
    const std::string report = expected[i](download(outputs[i]), may_be_other ? &(*flushed)[i] : nullptr);
    if (!report.empty()) return "output " + std::to_string(i) + ": " + report;
  }
  return {};
}

}  // namespace

bool same_elements(const Tensor& a, const Tensor& b) {
  return same_bytes(element_bytes(a), element_bytes(b)) || same_values(download(a).values, download(b).values);
}

std::string check_outputs(const Case& item, HostTensors inputs, Tensors outputs, DType dtype, Device device) {
  const std::vector<Comparison> expected = comparisons(item, inputs, dtype);
  std::vector<Comparison> flushed;
  if (may_be_flushed(item, device)) flushed = flushed_comparisons(item, inputs, dtype);
  return compare_all(outputs, expected, &flushed, device);
}

std::string ResultCheck::compare_with_reference(Tensors outputs, Device device) {
  const Case& item = drawn_.item();
  const bool flushes = may_be_flushed(item, device);
  if (!expected_ || (flushes && !flushed_)) {
    const std::vector<HostTensor> hosts = drawn_.hosts();
    if (!expected_) expected_ = comparisons(item, hosts, drawn_.dtype());
    if (flushes) flushed_ = flushed_comparisons(item, hosts, drawn_.dtype());
  }
  return compare_all(outputs, *expected_, flushes ? &*flushed_ : nullptr, device);
}

std::string ResultCheck::check_calls(Device device) {
  const Case& item = drawn_.item();
  std::vector<Tensor> tensors = drawn_.tensors(device);
  std::vector<std::vector<std::byte>> before;
  for (const Tensor& tensor : tensors) before.push_back(storage_bytes(tensor));
  const std::vector<Tensor> outputs = item.call(tensors);
  std::string report = compare_with_reference(outputs, device);
  if (!report.empty()) return report;

  for (size_t i = 0; i < tensors.size(); ++i) {
    // An in-place function may change what it returns.
    const auto& storage = tensors[i].storage();
    const bool is_result = std::ranges::any_of(outputs, [&](const Tensor& y) { return y.storage() == storage; });
    if ((item.in_place && is_result) || same_bytes(storage_bytes(tensors[i]), before[i])) continue;
    return "input " + std::to_string(i) + " was changed";
  }
  if (item.in_place) tensors = drawn_.tensors(device);
  const std::vector<Tensor> again = item.call(tensors);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i >= again.size() || !same_elements(outputs[i], again[i])) {
      return "output " + std::to_string(i) + " differs between two calls with the same inputs";
    }
  }
  return {};
}

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

std::string ResultCheck::operator()(Device device) {
  return with_guard_bands([&] { return check_calls(device); });
}

std::string check_result(const Case& item, DType dtype, Device device) {
  DrawnCase drawn(item, dtype);
  return ResultCheck(drawn)(device);
}

}  // namespace ashlar::conformance
