// The kernel files of a build, as ashlar_add_kernels() noted them: what compiles them, and what their generators say.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/launch/kernel.h"
#include "tools/tune/bundle.h"
#include "tools/tune/process.h"

namespace ashlar::tune {

struct KernelFile {
  std::string stem;
  std::filesystem::path generator, folder;
  std::vector<std::string> includes;
  std::string compiler;
  std::string conformance;  ///< the program with the kernels' cases; empty: none was named
  Command device_tools;     ///< ptxas, libnvfatbin and the architectures; empty: kernels stay PTX
  nlohmann::json spaces;

  /// Asks the generator for the spaces of its kernels. Throws DataError.
  void read_spaces(const std::string& target, int cuda_capability);
};

/// Those whose generators are built. Throws DataError where `build` has none.
std::vector<KernelFile> kernel_files(const std::filesystem::path& build);

/// "cpu" is what this machine's CPU runs, the widest first: not every kernel and instance has wide code. Any other
/// target is itself.
std::vector<std::string> code_targets_of_request(const std::string& target);

/// The generator's call that compiles (or explains and compiles) one setting into `folder`. `architectures` in place of
/// the build's, where it isn't empty.
Command compile_command(const KernelFile& file, const std::string& what, const std::string& kernel,
                        const std::string& instance, const std::string& target, int cuda_capability,
                        const std::filesystem::path& folder, const Tunables& tunables,
                        const std::string& architectures);

/// Links a kernel's file into `folder`/<stem>.so: its description, its functions, and the code that the build compiled
/// for the target and for the CPU, whose results the candidates' are compared with. Throws DataError.
void link_kernels(const KernelFile& file, const std::string& target, const std::filesystem::path& folder);

/// A kernel of such a library. Throws DataError.
const KernelInfo& open_kernel(const std::filesystem::path& library, const std::string& kernel);

/// What the assembler says of one compiled function's device code.
struct AssemblerReport {
  struct Function {
    std::string name, architecture;
    int registers = 0, shared_bytes = 0, spilled_bytes = 0;
  };
  std::vector<Function> functions;
  int spilled_bytes = 0;  ///< of all
};

/// Reads ptxas -v; nothing where there's no such file.
AssemblerReport read_assembler_report(const std::filesystem::path& file);

}  // namespace ashlar::tune
