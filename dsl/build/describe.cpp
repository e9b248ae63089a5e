#include "dsl/build/describe.h"

#include <nlohmann/json.hpp>

#include "dsl/build/signature.h"

namespace ashlar::dsl {

void describe(std::ostream& out) {
  using nlohmann::ordered_json;
  ordered_json all = ordered_json::array();
  for (const KernelEntry& entry : kernels()) {
    const KernelSummary kernel = summarize(entry);
    ordered_json arguments = ordered_json::array(), parameters = ordered_json::array(),
                 gradients = ordered_json::array(), instances = ordered_json::array();
    for (const ArgumentDescription& argument : kernel.arguments) {
      ordered_json a{{"name", argument.name}, {"role", role_name(argument.role)}, {"rank", argument.rank}};
      if (argument.element < 0)
        a["dtype"] = name_of(argument.dtype);
      else
        a["element"] = argument.element;
      ordered_json sizes = ordered_json::array();
      for (const Size& size : argument.sizes) sizes.push_back(size.is_free() ? "any" : size.text);
      if (!sizes.empty()) a["sizes"] = sizes;
      arguments.push_back(a);
    }
    for (const ParameterDescription& parameter : kernel.descriptor.parameters) {
      parameters.push_back({{"name", parameter.name},
                            {"kind", parameter.is_comptime ? "comptime" : "tunable"},
                            {"values", parameter.values}});
    }
    for (const GradientRule& rule : kernel.descriptor.gradients) {
      gradients.push_back({{"input", rule.input}, {"expression", rule.expression}});
    }
    for (const Build& build : kernel.builds) instances.push_back(entry.name + build.suffix);
    all.push_back({{"kernel", entry.name},
                   {"formula", kernel.descriptor.formula},
                   {"arguments", arguments},
                   {"parameters", parameters},
                   {"gradients", gradients},
                   {"instances", instances}});
  }
  out << all.dump(1) << "\n";
}

}  // namespace ashlar::dsl
