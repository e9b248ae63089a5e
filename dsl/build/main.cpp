// main() of every generator executable (one for each kernel file). The build calls:
//   <generator> compile TARGET CUDA_CAPABILITY FOLDER [PTXAS LIBNVFATBIN ARCHITECTURE,…]
//                                                       objects and tables for one code target; with the tools, CUDA
//                                                       kernels as machine code for these architectures
//   <generator> absent FOLDER                           empty tables, for targets that a program doesn't link
//   <generator> operators NAME FOLDER                   NAME.h and NAME.cpp: the kernels' tables and typed functions
//   <generator> gradients NAME FOLDER                   NAME.h and NAME.cpp: their differentiable versions
//   <generator> describe                                everything known about the kernels, as JSON
#include <Halide.h>

#include <iostream>
#include <sstream>

#include "dsl/build/compile.h"
#include "dsl/build/describe.h"
#include "dsl/build/emit.h"

namespace {

ashlar::dsl::DeviceTools device_tools(const std::vector<std::string>& arguments) {
  ashlar::dsl::DeviceTools tools;
  if (arguments.size() < 7) return tools;
  tools.ptxas = arguments[4];
  tools.nvfatbin = arguments[5];
  std::istringstream list(arguments[6]);
  for (std::string architecture; std::getline(list, architecture, ',');) tools.architectures.push_back(architecture);
  return tools;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ashlar::dsl;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if ((arguments.size() == 4 || arguments.size() == 7) && arguments[0] == "compile") {
      compile_kernels(arguments[1], std::stoi(arguments[2]), arguments[3], device_tools(arguments));
    } else if (arguments.size() == 2 && arguments[0] == "absent") {
      write_absent_tables(arguments[1]);
    } else if (arguments.size() == 3 && arguments[0] == "operators") {
      emit_operators(arguments[1], arguments[2]);
    } else if (arguments.size() == 3 && arguments[0] == "gradients") {
      emit_gradients(arguments[1], arguments[2]);
    } else if (arguments.size() == 1 && arguments[0] == "describe") {
      describe(std::cout);
    } else {
      std::cerr << "usage: " << argv[0]
                << " compile TARGET CUDA_CAPABILITY FOLDER [PTXAS LIBNVFATBIN ARCHITECTURES] | absent FOLDER | operators NAME FOLDER | gradients NAME "
                   "FOLDER | describe\n";
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
