#include "dsl/build/instance_code.h"

#include <sys/resource.h>

#include <sstream>

#include "dsl/build/files.h"
#include "dsl/build/lowered_digest.h"
#include "emitters.h"

namespace ashlar::dsl {
namespace {

using std::filesystem::path;

constexpr const char* kKind = "instances";
constexpr const char* kExtensions[] = {".o", ".cost", ".functions", ".ptx", ".ptxas"};

/// Of this process and of those that it has waited for.
double processor_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return seconds;
}

struct FoundInCache {};

/// The last lowering pass: what comes after it depends on the statement that it sees, on what the generator says of its
/// arguments by then, and on what `key` has already.
class LookUp : public Halide::Internal::IRMutator {
 public:
  LookUp(Digest key, Halide::Internal::AbstractGenerator& generator, const Compiling& with, const path& folder)
      : digest_(key), generator_(generator), with_(with), folder_(folder) {}
  std::string key;

  Halide::Internal::Stmt mutate(const Halide::Internal::Stmt& lowered) override {
    add_lowered(digest_, lowered);
    for (const auto& argument : generator_.arginfos()) {
      if (argument.dir == Halide::Internal::ArgInfoDirection::Input) {
        for (const Halide::Parameter& input : generator_.input_parameter(argument.name)) add_estimates(digest_, input);
      } else {
        for (const Halide::Func& output : generator_.output_func(argument.name)) {
          for (const Halide::OutputImageParam& buffer : output.output_buffers())
            add_estimates(digest_, buffer.parameter());
        }
      }
    }
    key = digest_.text();
    if (fetch_instance(key, with_, folder_)) throw FoundInCache();
    return lowered;
  }

 private:
  Digest digest_;
  Halide::Internal::AbstractGenerator& generator_;
  const Compiling& with_;
  const path& folder_;
};

/// What the code depends on beside the lowered statement.
Digest digest_of_surroundings(Halide::Internal::AbstractGenerator& generator, const Halide::Target& target,
                              const Compiling& with, const std::string& symbol) {
  Digest digest;
  digest.add(kEmitters);
  digest.add(identity_of_halide());
  digest.add(target.to_string());
  digest.add(with.tools.identity);
  for (const std::string& architecture : with.tools.architectures) digest.add(architecture);
  digest.add(symbol);
  for (const auto& argument : generator.arginfos()) {
    digest.add(argument.name);
    digest.add(static_cast<uint64_t>(argument.dir));
    digest.add(static_cast<uint64_t>(argument.kind));
    digest.add(static_cast<uint64_t>(argument.dimensions));
    for (const Halide::Type& type : argument.types)
      digest.add(static_cast<uint64_t>(type.code()) << 16 | static_cast<uint64_t>(type.bits()));
  }
  return digest;
}

}  // namespace

Cost cost_of(const path& folder, const std::string& symbol) {
  std::istringstream text(read_file(folder / (symbol + ".cost")));
  Cost cost{};
  if (!(text >> cost.seconds >> cost.bytes)) throw std::runtime_error("no cost of " + symbol);
  return cost;
}

InstanceCode compile_instance(const Build& build, const Setting& setting, const Compiling& with,
                              const std::string& symbol, const path& folder) {
  const double before = processor_seconds();
  const Halide::Target target = halide_target(with.code_target, with.cuda_capability);
  const auto kernel = create(build, target, setting);
  const auto look_up = std::make_shared<LookUp>(digest_of_surroundings(kernel->generator(), target, with, symbol),
                                                kernel->generator(), with, folder);
  kernel->descriptor().last_lowering_pass = look_up;
  const path stem = folder / symbol;
  try {
    Halide::Module module = kernel->generator().build_module(symbol);
    const std::string functions = device_functions(module);
    if (!functions.empty()) write_file(stem.string() + ".functions", functions);
    if (target.has_feature(Halide::Target::CUDA)) {
      module = with_machine_code(module, with.tools, with.cache, stem);
    } else if (target.has_feature(Halide::Target::OpenCL)) {
      module = with_plain_source(module);
    }
    module.compile({{Halide::OutputFileType::object, stem.string() + ".o"}});
  } catch (const FoundInCache&) {
    return {look_up->key, true};
  }
  std::ostringstream cost;
  cost << processor_seconds() - before << ' ' << std::filesystem::file_size(stem.string() + ".o") << '\n';
  write_file(stem.string() + ".cost", cost.str());
  std::vector<path> files;
  for (const std::string extension : kExtensions) {
    if (std::filesystem::exists(stem.string() + extension)) files.push_back(stem.string() + extension);
  }
  with.cache.keep(kKind, look_up->key, files);
  return {look_up->key, false};
}

bool fetch_instance(const std::string& key, const Compiling& with, const path& folder) {
  return with.cache.fetch(kKind, key, folder);
}

}  // namespace ashlar::dsl
