#include "schedules/autoschedule.h"

#include <dlfcn.h>

#include <filesystem>
#include <iostream>

#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {
namespace {

// The plugins lie beside Halide's library.
void load(const std::string& name) {
  Dl_info halide;
  if (dladdr(reinterpret_cast<const void*>(&Halide::load_plugin), &halide) == 0) {
    mistake("the folder of Halide's autoschedulers can't be found");
  }
  std::string file = "libautoschedule_" + name + ".so";
  for (char& c : file) c = static_cast<char>(std::tolower(c));
  const std::filesystem::path plugin = std::filesystem::path(halide.dli_fname).parent_path() / file;
  if (!std::filesystem::exists(plugin)) mistake("there is no autoscheduler " + name + " (" + plugin.string() + ")");
  Halide::load_plugin(plugin.string());
}

}  // namespace

void autoschedule(const Autoscheduler& autoscheduler, const std::vector<Halide::Func>& outputs) {
  const auto sizes_of = [&](const std::string& tensor, int rank) {
    const auto found = autoscheduler.sizes.find(tensor);
    if (found == autoscheduler.sizes.end() || static_cast<int>(found->second.size()) != rank) {
      mistake("an autoscheduler needs sizes to have in mind: give autoschedule() " + std::to_string(rank) + " for " +
              tensor);
    }
    return std::vector<int>(found->second.rbegin(), found->second.rend());
  };
  for (const Halide::Func& output : outputs) {
    for (Halide::Parameter input : inputs_of(output)) {
      std::vector<int> sizes = sizes_of(input.name(), input.dimensions() - 1);
      sizes.push_back(1);  // the hidden dimension, of the view's offset
      for (int d = 0; d < input.dimensions(); d++) {
        input.set_min_constraint_estimate(d, 0);
        input.set_extent_constraint_estimate(d, sizes[static_cast<size_t>(d)]);
      }
    }
    const std::vector<int> sizes = sizes_of(plain_name(output.name()), output.dimensions());
    for (size_t d = 0; d < sizes.size(); d++) Halide::Func(output).set_estimate(output.args()[d], 0, sizes[d]);
  }
  load(autoscheduler.name);
  const Halide::AutoschedulerParams parameters(autoscheduler.name,
                                               {{"parallelism", std::to_string(autoscheduler.threads)}});
  std::cerr << Halide::Pipeline(outputs).apply_autoscheduler(Descriptor::target, parameters).schedule_source;
}

}  // namespace ashlar::dsl
