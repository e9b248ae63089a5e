#include "dsl/build/device_code.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "dsl/build/digest.h"
#include "dsl/build/files.h"
#include "dsl/build/opencl_source.h"
#include "dsl/build/pack_text.h"
#include "dsl/build/ptx_clusters.h"
#include "dsl/build/ptx_overlap.h"
#include "dsl/build/ptx_rewriter.h"
#include "dsl/device_facts.h"

namespace ashlar::dsl {
namespace {

using std::filesystem::path;

/// Runs a program with its standard error going to the end of a file. Returns whether it succeeded.
bool run_program(const std::vector<std::string>& command, const path& errors) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    if (std::freopen(errors.c_str(), "a", stderr) != nullptr) execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// PTX → machine code for one architecture, kept by its text. The assembler's report is added to `stem`.ptxas.
std::string assemble(const DeviceTools& tools, const CodeCache& cache, const std::string& architecture,
                     const std::string& text, const path& stem) {
  const path work = stem.string() + ".sm_" + architecture;
  const path source = work / "source.ptx", code = work / "code", report = work / "report";
  std::filesystem::create_directories(work);
  Digest key;
  key.add(tools.identity);
  key.add(architecture);
  key.add(text);
  if (!cache.fetch("machine_code", key.text(), work)) {
    write_file(source, text);
    const std::vector<std::string> command = {tools.ptxas,     "-v", "-arch=sm_" + architecture,
                                              source.string(), "-o", code.string()};
    if (!run_program(command, report)) {
      throw std::runtime_error("ptxas -arch=sm_" + architecture + " " + stem.filename().string() + ".ptx failed:\n" +
                               read_file(report));
    }
    cache.keep("machine_code", key.text(), {code, report});
  }
  std::ofstream(stem.string() + ".ptxas", std::ios::app) << read_file(report);
  std::string result = read_file(code);
  std::filesystem::remove_all(work);
  return result;
}

/// NVIDIA's library that writes the container, opened when needed. Declarations follow its public header.
class FatbinLibrary {
 public:
  using Handle = struct HandleTag*;

  explicit FatbinLibrary(const std::string& file) : library_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error("can't open " + file + ": " + dlerror());
    load(create, "nvFatbinCreate");
    load(destroy, "nvFatbinDestroy");
    load(add_ptx, "nvFatbinAddPTX");
    load(add_cubin, "nvFatbinAddCubin");
    load(size, "nvFatbinSize");
    load(get, "nvFatbinGet");
    load(error_text, "nvFatbinGetErrorString");
  }

  void check(int status) const {
    if (status != 0) throw std::runtime_error(std::string("libnvfatbin: ") + error_text(status));
  }

  int (*create)(Handle* handle, const char** options, size_t option_count);
  int (*destroy)(Handle* handle);
  int (*add_ptx)(Handle handle, const char* code, size_t size, const char* architecture, const char* name,
                 const char* options);
  int (*add_cubin)(Handle handle, const void* code, size_t size, const char* architecture, const char* name);
  int (*size)(Handle handle, size_t* bytes);
  int (*get)(Handle handle, void* bytes);

 private:
  template <class Function>
  void load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("libnvfatbin has no ") + name);
  }
  const char* (*error_text)(int status);
  void* library_;
};

std::string pack(const DeviceTools& tools, const std::vector<std::string>& sources,
                 const std::vector<std::string>& cubins, const std::string& name) {
  const FatbinLibrary library(tools.nvfatbin);
  // Small entries too: a kernel's machine code is a few kilobytes, and there are hundreds of kernels.
  const char* options[] = {"-64", "-cuda", "-host=linux", "-compress-all", "-compress-mode=size"};
  FatbinLibrary::Handle handle = nullptr;
  library.check(library.create(&handle, options, std::size(options)));
  for (size_t i = 0; i < cubins.size(); i++) {
    library.check(
        library.add_cubin(handle, cubins[i].data(), cubins[i].size(), tools.architectures[i].c_str(), name.c_str()));
  }
  for (const std::string& text : sources) {  // c_str() and + 1: the terminating zero is part of the text
    library.check(library.add_ptx(handle, text.c_str(), text.size() + 1, ptx::architecture_of(text).c_str(),
                                  name.c_str(), nullptr));
  }
  size_t bytes = 0;
  library.check(library.size(handle, &bytes));
  std::string container(bytes, '\0');
  library.check(library.get(handle, container.data()));
  library.check(library.destroy(&handle));
  return container;
}

/// PTX for later GPUs: `plain` for its architecture and `full` for sm_90. The first is left out where machine code
/// serves every GPU before sm_90, since that of 8.0, say, runs on all of 8.x.
std::vector<std::string> sources_for_later(const DeviceTools& tools, const std::string& full,
                                           const std::string& plain) {
  const auto& all = tools.architectures;
  for (int major = std::stoi(ptx::architecture_of(plain)) / 10; major < kOverlapArchitecture / 10; major++) {
    if (std::find(all.begin(), all.end(), std::to_string(10 * major)) == all.end()) return {plain, full};
  }
  return {full};
}

/// Tells Halide's runtime the size of the code it is given, and code that has no clusters that there are none.
class ReplaceCodeSize : public Halide::Internal::IRMutator {
 public:
  ReplaceCodeSize(size_t bytes, bool has_clusters) : bytes_(static_cast<int>(bytes)), has_clusters_(has_clusters) {}
  int replaced = 0;

 private:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Call* op) override {
    if (op->name == kCudaClusters && !has_clusters_) return 0;
    if (op->name != "halide_cuda_initialize_kernels" && op->name != "halide_opencl_initialize_kernels")
      return IRMutator::visit(op);
    std::vector<Halide::Expr> arguments = op->args;
    arguments.back() = bytes_;
    replaced++;
    return Halide::Internal::Call::make(op->type, op->name, arguments, op->call_type);
  }
  const int bytes_;
  const bool has_clusters_;
};

/// Shared memory that kernels are given at their launch, which the assembler doesn't know of: a line for each where it
/// is a constant.
class SharedAtLaunch : public Halide::Internal::IRVisitor {
 public:
  std::string report;

 private:
  using IRVisitor::visit;
  void visit(const Halide::Internal::Call* op) override {
    IRVisitor::visit(op);
    if (op->name != "halide_cuda_run") return;
    const auto name = std::find_if(op->args.begin(), op->args.end(), [](const Halide::Expr& e) {
      return e.as<Halide::Internal::StringImm>() != nullptr;
    });
    constexpr ptrdiff_t kSharedBytes = 7;  // behind the name, three sizes of the grid and three of a block
    if (op->args.end() - name <= kSharedBytes) return;
    const auto bytes = Halide::Internal::as_const_int(Halide::Internal::simplify(name[kSharedBytes]));
    if (!bytes || *bytes == 0) return;
    report += "ashlar info : '" + name->as<Halide::Internal::StringImm>()->value + "' is launched with " +
              std::to_string(*bytes) + " bytes smem\n";
  }
};

/// The module with other bytes in the buffer of that name. Functions refer to buffers by name.
Halide::Module with_code(const Halide::Module& module, const std::string& buffer_name, const std::string& code,
                         bool has_clusters = false) {
  Halide::Module changed(module.name(), module.target(), module.get_metadata_name_map());
  changed.set_any_strict_float(module.any_strict_float());
  ReplaceCodeSize replace_size(code.size(), has_clusters);
  for (Halide::Internal::LoweredFunc function : module.functions()) {
    function.body = replace_size.mutate(function.body);
    changed.append(function);
  }
  if (replace_size.replaced != 1) throw std::runtime_error("the module doesn't load its GPU code exactly once");
  for (const Halide::Buffer<>& buffer : module.buffers()) {
    if (buffer.name() != buffer_name) {
      changed.append(buffer);
      continue;
    }
    Halide::Buffer<uint8_t> bytes(static_cast<int>(code.size()), buffer_name);
    std::memcpy(bytes.data(), code.data(), code.size());
    changed.append(Halide::Buffer<>(bytes));
  }
  return changed;
}

}  // namespace

std::string device_functions(const Halide::Module& module) {
  const Halide::Buffer<> source = module.get_device_code_buffer();
  if (!source.defined()) return {};
  std::istringstream lines(static_cast<const char*>(source.data()));
  std::string names;
  for (std::string line; std::getline(lines, line);) {
    for (const std::string begin : {".entry ", "__kernel void "}) {
      const size_t at = line.find(begin);
      if (at == std::string::npos) continue;
      const size_t name = at + begin.size();
      names += (names.empty() ? "" : " ") + line.substr(name, line.find('(', name) - name);
    }
  }
  return names;
}

Halide::Module with_machine_code(const Halide::Module& module, const DeviceTools& tools, const CodeCache& cache,
                                 const path& stem) {
  const Halide::Buffer<> source = module.get_device_code_buffer();
  if (!source.defined()) return module;
  const std::string original = static_cast<const char*>(source.data());
  const std::string rewritten = rewrite_ptx(original), plain = without_clusters(rewritten, original);
  const std::string full = overlapping(rewritten);
  write_file(stem.string() + ".ptx", full);
  if (tools.ptxas.empty()) return with_code(module, source.name(), plain + '\0');
  std::vector<std::string> cubins;
  for (const std::string& architecture : tools.architectures) {
    const bool is_late = std::stoi(architecture) >= kOverlapArchitecture;
    cubins.push_back(assemble(tools, cache, architecture, is_late ? full : plain, stem));
  }
  SharedAtLaunch shared;
  for (const Halide::Internal::LoweredFunc& function : module.functions()) function.body.accept(&shared);
  std::ofstream(stem.string() + ".ptxas", std::ios::app) << shared.report;
  return with_code(module, source.name(), pack(tools, sources_for_later(tools, full, plain), cubins, module.name()),
                   true);
}

Halide::Module with_plain_source(const Halide::Module& module) {
  const Halide::Buffer<> source = module.get_device_code_buffer();
  if (!source.defined()) return module;
  return with_code(module, source.name(), pack_text(rewrite_opencl(static_cast<const char*>(source.data()))));
}

}  // namespace ashlar::dsl
