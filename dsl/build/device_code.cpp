#include "dsl/build/device_code.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "dsl/build/opencl_source.h"
#include "dsl/build/ptx_rewriter.h"

namespace ashlar::dsl {
namespace {

using std::filesystem::path;

std::string read_file(const path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw std::runtime_error("can't read " + file.string());
  return content;
}

void write_file(const path& file, const std::string& content) {
  std::ofstream out(file, std::ios::binary);
  out << content;
  if (!out.flush()) throw std::runtime_error("can't write " + file.string());
}

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

/// PTX → machine code for one architecture. The assembler's report is added to `stem`.ptxas.
std::string assemble(const DeviceTools& tools, const std::string& architecture, const path& stem) {
  const path cubin = stem.string() + ".sm_" + architecture, report = stem.string() + ".ptxas";
  const std::vector<std::string> command = {
      tools.ptxas, "-v", "-arch=sm_" + architecture, stem.string() + ".ptx", "-o", cubin.string()};
  if (!run_program(command, report)) {
    throw std::runtime_error("ptxas -arch=sm_" + architecture + " " + stem.filename().string() + ".ptx failed:\n" +
                             read_file(report));
  }
  std::string code = read_file(cubin);
  std::filesystem::remove(cubin);
  return code;
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

/// The architecture that PTX was written for, as its head says: ".target sm_80" gives "80".
std::string architecture_of(const std::string& ptx) {
  const std::string word = ".target sm_";
  const size_t at = ptx.find(word);
  if (at == std::string::npos) throw std::runtime_error("PTX without a .target");
  const size_t begin = at + word.size();
  return ptx.substr(begin, ptx.find_first_not_of("0123456789", begin) - begin);
}

std::string pack(const DeviceTools& tools, const std::string& ptx, const std::vector<std::string>& cubins,
                 const std::string& name) {
  const FatbinLibrary library(tools.nvfatbin);
  // Small entries too: a kernel's machine code is a few kilobytes, and there are hundreds of kernels.
  const char* options[] = {"-64", "-cuda", "-host=linux", "-compress-all", "-compress-mode=size"};
  FatbinLibrary::Handle handle = nullptr;
  library.check(library.create(&handle, options, std::size(options)));
  for (size_t i = 0; i < cubins.size(); i++) {
    library.check(
        library.add_cubin(handle, cubins[i].data(), cubins[i].size(), tools.architectures[i].c_str(), name.c_str()));
  }
  // c_str() and + 1: the terminating zero is part of the text.
  library.check(
      library.add_ptx(handle, ptx.c_str(), ptx.size() + 1, architecture_of(ptx).c_str(), name.c_str(), nullptr));
  size_t bytes = 0;
  library.check(library.size(handle, &bytes));
  std::string container(bytes, '\0');
  library.check(library.get(handle, container.data()));
  library.check(library.destroy(&handle));
  return container;
}

/// Tells Halide's runtime the size of the code it is given.
class ReplaceCodeSize : public Halide::Internal::IRMutator {
 public:
  explicit ReplaceCodeSize(size_t bytes) : bytes_(static_cast<int>(bytes)) {}
  int replaced = 0;

 private:
  using IRMutator::visit;
  Halide::Expr visit(const Halide::Internal::Call* op) override {
    if (op->name != "halide_cuda_initialize_kernels" && op->name != "halide_opencl_initialize_kernels")
      return IRMutator::visit(op);
    std::vector<Halide::Expr> arguments = op->args;
    arguments.back() = bytes_;
    replaced++;
    return Halide::Internal::Call::make(op->type, op->name, arguments, op->call_type);
  }
  int bytes_;
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
Halide::Module with_code(const Halide::Module& module, const std::string& buffer_name, const std::string& code) {
  Halide::Module changed(module.name(), module.target(), module.get_metadata_name_map());
  changed.set_any_strict_float(module.any_strict_float());
  ReplaceCodeSize replace_size(code.size());
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

Halide::Module with_machine_code(const Halide::Module& module, const DeviceTools& tools, const path& stem) {
  const Halide::Buffer<> source = module.get_device_code_buffer();
  if (!source.defined()) return module;
  const std::string ptx = rewrite_ptx(static_cast<const char*>(source.data()));
  write_file(stem.string() + ".ptx", ptx);
  if (tools.ptxas.empty()) return with_code(module, source.name(), ptx + '\0');
  std::vector<std::string> cubins;
  for (const std::string& architecture : tools.architectures) {
    cubins.push_back(assemble(tools, architecture, stem));
  }
  SharedAtLaunch shared;
  for (const Halide::Internal::LoweredFunc& function : module.functions()) function.body.accept(&shared);
  std::ofstream(stem.string() + ".ptxas", std::ios::app) << shared.report;
  return with_code(module, source.name(), pack(tools, ptx, cubins, module.name()));
}

Halide::Module with_plain_source(const Halide::Module& module) {
  const Halide::Buffer<> source = module.get_device_code_buffer();
  if (!source.defined()) return module;
  return with_code(module, source.name(), rewrite_opencl(static_cast<const char*>(source.data())) + '\0');
}

}  // namespace ashlar::dsl
