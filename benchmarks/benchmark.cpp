#include "benchmarks/benchmark.h"

#include <set>
#include <utility>

#include "tests/conformance/cases/cases.h"

namespace ashlar::bench {

Benchmark simple(std::string kernel, std::string name, std::vector<Input> inputs, Call call, double flops) {
  return {.kernel = std::move(kernel),
          .name = std::move(name),
          .inputs = std::move(inputs),
          .make = [call = std::move(call)] { return call; },
          .flops = flops};
}

const std::vector<Benchmark>& all_benchmarks() {
  static const std::vector<Benchmark> all = [] {
    conformance::add_all_cases();
    std::vector<Benchmark> found;
    std::set<std::pair<std::string, std::string>> names;
    const auto add = [&](Benchmark benchmark) {
      if (names.emplace(benchmark.kernel, benchmark.name).second) found.push_back(std::move(benchmark));
    };
    for (const conformance::Case& item : conformance::cases()) {
      if (!item.benchmark || item.kernel == "fill") continue;  // the input of a fill is only a description
      Benchmark benchmark = simple(item.kernel, item.name, item.inputs, item.call, item.flops);
      benchmark.dtypes = item.dtypes;
      add(std::move(benchmark));
    }
    for (Benchmark& benchmark : operator_benchmarks()) add(std::move(benchmark));
    for (Benchmark& benchmark : program_benchmarks()) add(std::move(benchmark));
    for (Benchmark& benchmark : training_benchmarks()) add(std::move(benchmark));
    for (Benchmark& benchmark : forecast_benchmarks()) add(std::move(benchmark));
    return found;
  }();
  return all;
}

}  // namespace ashlar::bench
