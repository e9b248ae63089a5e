#include "benchmarks/named_call.h"

#include <deque>
#include <nlohmann/json.hpp>
#include <string>

#include "c/call.h"
#include "c/handles.h"
#include "runtime/support/error.h"

using nlohmann::json;

namespace ashlar::bench {
namespace {

constexpr const char* kName = "ashlar_bench_make_call";

Shape shape_of(const json& sizes) {
  const auto numbers = sizes.get<std::vector<int64_t>>();
  return c::shape_of(kName, numbers.size(), numbers.data());
}

/// Options and what they point to.
class Options {
 public:
  explicit Options(const json& named) {
    for (const auto& [name, value] : named.items()) add(name, value);
  }
  const std::vector<AshlarOption>& all() const { return all_; }

 private:
  void add(const std::string& name, const json& value) {
    AshlarOption option{};
    option.name = texts_.emplace_back(name).c_str();
    if (value.is_boolean() || value.is_number_integer()) {
      option.kind = ASHLAR_INTEGER;
      option.integer = value.is_boolean() ? value.get<bool>() : value.get<int64_t>();
    } else if (value.is_number()) {
      option.kind = ASHLAR_REAL;
      option.real = value.get<double>();
    } else if (value.is_string()) {
      option.kind = ASHLAR_TEXT;
      option.text = texts_.emplace_back(value.get<std::string>()).c_str();
    } else {
      const auto& numbers = integers_.emplace_back(value.get<std::vector<int64_t>>());
      option.kind = ASHLAR_INTEGERS;
      option.integers = numbers.data();
      option.count = numbers.size();
    }
    all_.push_back(option);
  }
  std::vector<AshlarOption> all_;
  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> integers_;
};

}  // namespace

std::vector<Tensor> buffers_of(const json& call, Device device) {
  std::vector<Tensor> buffers;
  for (const json& input : call.at("inputs")) {
    buffers.push_back(Tensor::empty({input.at("elements").get<int64_t>()},
                                    c::parse_dtype(kName, input.at("dtype").get<std::string>().c_str()), device));
  }
  return buffers;
}

std::function<std::vector<Tensor>()> bound_call(const json& call, const std::vector<Tensor>& buffers) {
  std::vector<AshlarTensor> handles;
  for (size_t i = 0; i < buffers.size(); i++) {
    const json& view = call.at("inputs").at(i);
    handles.push_back({buffers[i].as_strided(shape_of(view.at("shape")), shape_of(view.at("strides")),
                                             buffers[i].offset() + view.at("offset").get<int64_t>()),
                       buffers[i].device().str()});
  }
  const auto name = call.at("operator").get<std::string>();
  if (name == "copy") return [x = handles.at(0).tensor] { return std::vector{x.clone()}; };
  std::vector<const AshlarTensor*> inputs;
  for (const AshlarTensor& handle : handles) inputs.push_back(&handle);
  const Options options(call.at("options"));
  return [bound = c::Call(c::operator_of(kName, name.c_str()), inputs.data(), inputs.size(), options.all().data(),
                          options.all().size())] { return bound.run(); };
}

}  // namespace ashlar::bench
