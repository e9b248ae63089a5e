// main() of every generator executable (one for each kernel file). The build calls:
//   <generator> compile TARGET CUDA_CAPABILITY FOLDER TUNED [TOOLS] [--cache=FOLDER] [--slots=FOLDER]
//   [--tools=IDENTITY]
//                                                       objects and tables for one code target, with the settings that
//                                                       the tables in the folder TUNED use; --cache keeps compiled
//                                                       code,
//                                                       --slots compiles on all processors at once, however many
//                                                       generators share that folder; IDENTITY changes with the tools
//   <generator> spaces TARGET CUDA_CAPABILITY           every instance's tunables that are worth trying, as JSON
//   <generator> setting KERNEL INSTANCE TARGET CUDA_CAPABILITY FOLDER [TOOLS] [NAME=VALUE ...]
//                                                       one of them, compiled
//   <generator> explain …                               the same, and prints its tunables and loop nest
// TOOLS are PTXAS LIBNVFATBIN ARCHITECTURE,…: with them CUDA kernels are machine code for these architectures.
//   <generator> absent FOLDER                           empty tables, for targets that a program doesn't link
//   <generator> operators NAME FOLDER                   NAME.h and NAME.cpp: the kernels' tables and typed functions
//   <generator> gradients NAME FOLDER                   NAME.h and NAME.cpp: their differentiable versions
//   <generator> names                                   the kernels' names, a line each
//   <generator> describe                                everything known about the kernels, as JSON
#include <Halide.h>

#include <iostream>
#include <map>
#include <sstream>

#include "dsl/build/compile.h"
#include "dsl/build/describe.h"
#include "dsl/build/emit.h"
#include "dsl/build/explain.h"
#include "dsl/build/settings.h"
#include "dsl/build/space.h"

// How jemalloc, where a generator is linked with it, keeps memory: all of it, in large pages.
extern "C" {
const char* malloc_conf = "thp:always,metadata_thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1";
}

namespace {

// The three words at `first`, or none.
ashlar::dsl::DeviceTools device_tools(const std::vector<std::string>& arguments, size_t first) {
  ashlar::dsl::DeviceTools tools;
  if (arguments.size() < first + 3) return tools;
  tools.ptxas = arguments[first];
  tools.nvfatbin = arguments[first + 1];
  std::istringstream list(arguments[first + 2]);
  for (std::string architecture; std::getline(list, architecture, ',');) tools.architectures.push_back(architecture);
  return tools;
}

// "--cache=FOLDER" and the like, taken out of the arguments.
std::map<std::string, std::string> take_options(std::vector<std::string>& arguments) {
  std::map<std::string, std::string> options;
  std::erase_if(arguments, [&](const std::string& argument) {
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string::npos) return false;
    options[argument.substr(2, equals - 2)] = argument.substr(equals + 1);
    return true;
  });
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ashlar::dsl;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::map<std::string, std::string> options = take_options(arguments);
  try {
    check_kernels();
    if ((arguments.size() == 5 || arguments.size() == 8) && arguments[0] == "compile") {
      Compiling with{arguments[1], std::stoi(arguments[2]), device_tools(arguments, 5), CodeCache(options["cache"])};
      with.tools.identity = options["tools"];
      compile_kernels(with, arguments[3], arguments[4], options["slots"]);
    } else if (arguments.size() == 3 && arguments[0] == "spaces") {
      write_spaces(std::cout, arguments[1], std::stoi(arguments[2]));
    } else if (arguments.size() >= 6 && (arguments[0] == "setting" || arguments[0] == "explain")) {
      Setting setting;
      std::vector<std::string> tools;
      for (size_t i = 6; i < arguments.size(); i++) {
        const size_t equals = arguments[i].find('=');
        if (equals == std::string::npos)
          tools.push_back(arguments[i]);
        else
          setting.emplace_back(arguments[i].substr(0, equals), arguments[i].substr(equals + 1));
      }
      const int capability = std::stoi(arguments[4]);
      if (arguments[0] == "explain") explain(std::cout, arguments[1], arguments[2], arguments[3], capability, setting);
      compile_setting(arguments[1], arguments[2], {arguments[3], capability, device_tools(tools, 0), {}}, setting,
                      arguments[5]);
    } else if (arguments.size() == 2 && arguments[0] == "absent") {
      write_absent_tables(arguments[1]);
    } else if (arguments.size() == 3 && arguments[0] == "operators") {
      emit_operators(arguments[1], arguments[2]);
    } else if (arguments.size() == 3 && arguments[0] == "gradients") {
      emit_gradients(arguments[1], arguments[2]);
    } else if (arguments.size() == 1 && arguments[0] == "names") {
      for (const KernelEntry& entry : kernels()) std::cout << entry.name << "\n";
    } else if (arguments.size() == 1 && arguments[0] == "describe") {
      describe(std::cout);
    } else {
      std::cerr << "usage: " << argv[0]
                << " compile TARGET CUDA_CAPABILITY FOLDER TUNED [TOOLS] [--cache=FOLDER] [--slots=FOLDER] "
                   "[--tools=IDENTITY] | "
                   "spaces TARGET CUDA_CAPABILITY | setting KERNEL INSTANCE TARGET CUDA_CAPABILITY FOLDER [TOOLS] "
                   "[NAME=VALUE ...] | explain (the same) | "
                   "absent FOLDER | operators NAME FOLDER | gradients NAME FOLDER | names | describe\n";
      return 2;
    }
  } catch (const Halide::Error& error) {  // no std::exception
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}
