#include "dsl/build/compile.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>

#include "dsl/build/instances.h"

namespace ashlar::dsl {
namespace {

using std::filesystem::path;

// The layout of runtime/kernel.h's KernelInstance and TargetTable, without its headers: a table compiles in
// milliseconds.
constexpr const char* kTableTypes =
    "struct Instance { unsigned key; int (*function)(void**); const char* symbol; };\n"
    "struct Table { const Instance* instances; int count; };\n";

void write_table(const KernelSummary& kernel, const std::string& code_target, const path& file) {
  std::ofstream out(file);
  out << kTableTypes;
  for (const Build& build : kernel.builds) {
    out << "extern \"C\" int " << symbol_of(*kernel.entry, build, code_target) << "_argv(void**);\n";
  }
  out << "static const Instance instances[] = {\n";
  for (const Build& build : kernel.builds) {
    const std::string symbol = symbol_of(*kernel.entry, build, code_target);
    out << "  {" << build.key.packed() << "u, " << symbol << "_argv, \"" << symbol << "\"},\n";
  }
  out << "};\nextern \"C\" const Table " << table_of(*kernel.entry, code_target) << " = {instances, "
      << kernel.builds.size() << "};\n";
  if (!out) throw std::runtime_error("can't write " + file.string());
}

void compile_instance(const Build& build, const Halide::Target& target, const std::string& symbol, const path& folder,
                      const DeviceTools& tools) {
  const auto kernel = build.instance->create(Halide::GeneratorContext(target));
  for (const auto& [name, value] : build.comptimes) kernel->generator().set_generatorparam_value(name, value);
  Halide::Module module = kernel->generator().build_module(symbol);
  if (target.has_feature(Halide::Target::CUDA)) {
    module = with_machine_code(module, tools, kernel->descriptor().register_budget, folder / symbol);
  }
  module.compile({{Halide::OutputFileType::object, (folder / (symbol + ".o")).string()}});
}

// Runs `work` in a child process; throws when it fails.
template <class Work>
void in_child(const std::string& what, Work work) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    int code = 1;
    try {
      work();
      code = 0;
    } catch (const Halide::Error& error) {  // no std::exception
      std::cerr << what << ": " << error.what() << std::endl;
    } catch (const std::exception& error) {
      std::cerr << what << ": " << error.what() << std::endl;
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error("compiling " + what + " failed");
}

}  // namespace

int compile_kernels(const std::string& code_target, int cuda_capability, const path& folder,
                    const DeviceTools& tools) {
  const Halide::Target target = halide_target(code_target, cuda_capability);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream objects(folder / "objects.rsp"), tables(folder / "tables.rsp");
  int count = 0;
  for (const KernelEntry& entry : kernels()) {
    const KernelSummary kernel = summarize(entry);
    for (const Build& build : kernel.builds) {
      const std::string symbol = symbol_of(entry, build, code_target);
      in_child(symbol, [&] { compile_instance(build, target, symbol, folder, tools); });
      objects << symbol << ".o\n";
      count++;
    }
    const std::string table = table_of(entry, code_target);
    write_table(kernel, code_target, folder / (table + ".cpp"));
    tables << table << ".cpp\n";
    objects << table << ".o\n";
  }
  return count;
}

void write_absent_tables(const path& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const std::string& code_target : kCodeTargetNames) {
    std::ofstream out(folder / (code_target + ".cpp"));
    out << kTableTypes;
    for (const KernelEntry& entry : kernels()) {
      out << "extern \"C\" const Table " << table_of(entry, code_target) << " = {nullptr, 0};\n";
    }
    if (!out) throw std::runtime_error("can't write to " + folder.string());
  }
}

}  // namespace ashlar::dsl
