#include "tools/tune/kernel_files.h"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "json/strict_json.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/support/error.h"

namespace ashlar::tune {

using nlohmann::json;
using std::filesystem::path;

void KernelFile::read_spaces(const std::string& target, int cuda_capability) {
  const Finished finished = run({generator.string(), "spaces", target, std::to_string(cuda_capability)});
  if (finished.code != 0) throw DataError("ashlar-tune", finished.output, "the spaces of " + stem, "");
  try {
    spaces = strict_json::parse(finished.output);
  } catch (const strict_json::Refusal& refusal) {
    throw DataError("ashlar-tune", generator.string() + ": " + refusal.what(), "the spaces of " + stem,
                    "Build the kernels again");
  }
}

/// The files that one call of ashlar_add_kernels() noted, and whose generators are there.
static void add_files(const std::string& text, std::vector<KernelFile>& files) {
  using strict_json::get;
  const std::string where = "the note";
  const json noted = strict_json::parse(text);
  KernelFile common;
  common.folder = get<std::string>(noted, "folder", where);
  common.compiler = get<std::string>(noted, "compiler", where);
  if (noted.contains("conformance")) common.conformance = get<std::string>(noted, "conformance", where);
  const std::string ptxas = get<std::string>(noted, "ptxas", where);
  if (!ptxas.empty()) {
    common.device_tools = {ptxas, get<std::string>(noted, "nvfatbin", where),
                           get<std::string>(noted, "architectures", where)};
  }
  std::stringstream includes(get<std::string>(noted, "includes", where));
  for (std::string folder; std::getline(includes, folder, ';');) {
    if (!folder.empty()) common.includes.push_back("-I" + folder);
  }
  for (const json& file : strict_json::list(strict_json::member(noted, "files", where), "files")) {
    KernelFile one = common;
    one.stem = get<std::string>(file, "stem", "a file");
    one.generator = get<std::string>(file, "generator", "a file");
    if (std::filesystem::exists(one.generator)) files.push_back(one);
  }
}

std::vector<KernelFile> kernel_files(const path& build) {
  std::vector<KernelFile> files;
  if (std::filesystem::is_directory(build / "ashlar_kernels")) {
    for (const auto& entry : std::filesystem::directory_iterator(build / "ashlar_kernels")) {
      std::ifstream in(entry.path());
      try {
        add_files({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}, files);
      } catch (const strict_json::Refusal& refusal) {
        throw DataError("ashlar-tune", entry.path().string() + ": " + refusal.what(),
                        "what ashlar_add_kernels() noted there", "Configure the build folder again");
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
    for (const char* dtype : {"", "_f16", "_bf16", "_f64"}) {  // instances that programs may leave out
      const path kernels = file.folder / (file.stem + "_" + code) / (file.stem + "_" + code + dtype + ".o");
      if (std::filesystem::exists(kernels) && compiled.insert(code + dtype).second) command.push_back(kernels.string());
    }
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
