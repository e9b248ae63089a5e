// Writes Halide's runtime as one object file: emit_runtime FILE.o. One for all targets, since a program may have only
// one.
#include <Halide.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " FILE.o\n";
    return 2;
  }
  Halide::compile_standalone_runtime(argv[1], Halide::Target("x86-64-linux-cuda-opencl-user_context"));
  return 0;
} catch (const std::exception& error) {
  std::cerr << "emit_runtime: " << error.what() << '\n';
  return 1;
}
