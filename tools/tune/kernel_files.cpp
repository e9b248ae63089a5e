#include "tools/tune/kernel_files.h"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/cpu/cpu_device.h"
#include "runtime/error.h"

namespace ashlar::tune {

using nlohmann::json;
using std::filesystem::path;

void KernelFile::read_spaces(const std::string& target, int cuda_capability) {
  const Finished finished = run({generator.string(), "spaces", target, std::to_string(cuda_capability)});
  if (finished.code != 0) throw DataError("ashlar-tune", finished.output, "the spaces of " + stem, "");
  spaces = json::parse(finished.output);
}

std::vector<KernelFile> kernel_files(const path& build) {
  std::vector<KernelFile> files;
  if (std::filesystem::is_directory(build / "ashlar_kernels")) {
    for (const auto& entry : std::filesystem::directory_iterator(build / "ashlar_kernels")) {
      std::ifstream in(entry.path());
      const json noted = json::parse(in);
      for (const json& file : noted["files"]) {
        if (!std::filesystem::exists(file["generator"].get<std::string>())) continue;
        KernelFile one{file["stem"],
                       file["generator"].get<std::string>(),
                       noted["folder"].get<std::string>(),
                       {},
                       noted["compiler"],
                       noted.value("conformance", ""),
                       {},
                       {}};
        if (noted["ptxas"] != "") one.device_tools = {noted["ptxas"], noted["nvfatbin"], noted["architectures"]};
        std::stringstream includes(noted["includes"].get<std::string>());
        for (std::string folder; std::getline(includes, folder, ';');) {
          if (!folder.empty()) one.includes.push_back("-I" + folder);
        }
        files.push_back(one);
      }
    }
  }
  if (files.empty()) {
    throw DataError("ashlar-tune", "a folder without kernels, " + build.string(),
                    "a build folder with kernels of ashlar_add_kernels()", "Give it with --build");
  }
  return files;
}

std::vector<std::string> code_targets_of_request(const std::string& target) {
  if (target != "cpu") return {target};
  std::vector<std::string> names;
  for (int code = static_cast<int>(detail::cpu_code_target()); code >= 0; --code) {
    names.emplace_back(name_of(static_cast<CodeTarget>(code)));
  }
  return names;
}

Command compile_command(const KernelFile& file, const std::string& what, const std::string& kernel,
                        const std::string& instance, const std::string& target, int cuda_capability, const path& folder,
                        const Tunables& tunables, const std::string& architectures) {
  Command command{file.generator.string(),         what,           kernel, instance, target,
                  std::to_string(cuda_capability), folder.string()};
  if (target == "cuda" && !file.device_tools.empty()) {
    command.insert(command.end(), file.device_tools.begin(), file.device_tools.end());
    if (!architectures.empty()) command.back() = architectures;
  }
  for (const auto& [name, value] : tunables) command.push_back(name + "=" + value);
  return command;
}

void link_kernels(const KernelFile& file, const std::string& target, const path& folder) {
  const path source = folder / (file.stem + "_entry.cpp");
  std::ofstream(source)
      << "#include \"ashlar/ops/" << file.stem << ".h\"\n#include <string_view>\n"
      << "extern \"C\" const ashlar::KernelInfo* ashlar_tuned_kernel(const char* name) {\n"
      << "  for (const ashlar::KernelInfo* kernel : ashlar::kernels::all_of_" << file.stem
      << "())\n    if (std::string_view(kernel->name) == name) return kernel;\n  return nullptr;\n}\n";
  Command command{file.compiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-Wl,-Bsymbolic"};
  command.insert(command.end(), file.includes.begin(), file.includes.end());
  command.insert(command.end(), {"-o", (folder / (file.stem + ".so")).string(), source.string(),
                                 (file.folder / "include/ashlar/ops" / (file.stem + ".cpp")).string()});
  std::set<std::string> compiled;
  for (const std::string& code : {std::string("cpu"), std::string("cpu_avx2"), target}) {
    const path kernels = file.folder / (file.stem + "_" + code) / (file.stem + "_" + code + ".o");
    if (std::filesystem::exists(kernels) && compiled.insert(code).second) command.push_back(kernels.string());
  }
  if (!compiled.contains(target)) {
    throw DataError("ashlar-tune", "no " + target + " code of " + file.stem, "kernels built for that target",
                    "Build them first");
  }
  for (const auto& absent : std::filesystem::directory_iterator(file.folder / (file.stem + "_absent"))) {
    if (absent.path().extension() == ".o" && !compiled.contains(absent.path().stem().string())) {
      command.push_back(absent.path().string());
    }
  }
  const Finished finished = run(command);
  if (finished.code != 0) throw DataError("ashlar-tune", finished.output, "a file that links, " + file.stem, "");
  std::filesystem::remove(source);
}

const KernelInfo& open_kernel(const path& library, const std::string& kernel) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* find = handle ? dlsym(handle, "ashlar_tuned_kernel") : nullptr;
  if (find == nullptr) throw DataError("ashlar-tune", dlerror(), "a library of kernels", "Make the bundle again");
  const KernelInfo* info = reinterpret_cast<const KernelInfo* (*)(const char*)>(find)(kernel.c_str());
  if (info == nullptr)
    throw DataError("ashlar-tune", kernel, "a kernel of " + library.string(), "Make the bundle again");
  return *info;
}

AssemblerReport read_assembler_report(const path& file) {
  AssemblerReport report;
  std::ifstream in(file);
  AssemblerReport::Function current;
  for (std::string line; std::getline(in, line);) {
    char name[512], architecture[64];
    int stores = 0, loads = 0, shared = 0;
    if (std::sscanf(line.c_str(), "ptxas info : Compiling entry function '%511[^']' for '%63[^']'", name,
                    architecture) == 2) {
      current = {name, architecture};
    } else if (std::sscanf(line.c_str(), "ashlar info : '%511[^']' is launched with %d bytes smem", name, &shared) ==
               2) {
      for (AssemblerReport::Function& function : report.functions) {
        if (function.name == name) function.shared_bytes += shared;
      }
    } else if (std::sscanf(line.c_str(), " %*d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stores,
                           &loads) == 2) {
      current.spilled_bytes = stores + loads;
    } else if (const size_t used = line.find("Used "); used != std::string::npos) {
      current.registers = std::atoi(line.c_str() + used + 5);
      if (const size_t bytes = line.find(" bytes smem"); bytes != std::string::npos) {
        current.shared_bytes = std::atoi(line.c_str() + line.rfind(' ', bytes - 1));
      }
      report.functions.push_back(current);
      report.spilled_bytes += current.spilled_bytes;
    }
  }
  return report;
}

}  // namespace ashlar::tune
