#include "tools/tune/bundle.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>

#include "json/strict_json.h"
#include "runtime/support/error.h"
#include "tools/tune/call.h"
#include "tools/tune/kernel_files.h"
#include "tools/tune/process.h"

namespace ashlar::tune {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Candidate, tunables, symbol, error, spilled_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Instance, kernel, name, key, library, sizes, candidates, left_out, judge)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Origin, request, generators)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Bundle, target, origin, instances)

namespace {

using nlohmann::json;
using std::filesystem::path;
using strict_json::get;
using strict_json::list;
using strict_json::member;
using strict_json::Refusal;

void compile_candidate(const KernelFile& file, const Instance& instance, const BundleRequest& request,
                       const std::string& target, Candidate& candidate) {
  // A folder for each, because the compiler's files are named by the symbol.
  const path work = request.folder / "work" / candidate.symbol;
  Finished finished = run(compile_command(file, "setting", instance.kernel, instance.name, target,
                                          request.cuda_capability, work, candidate.tunables, request.architectures));
  // The generator names the function by its tunables, in whatever order they came.
  if (finished.code == 0) {
    for (const auto& entry : std::filesystem::directory_iterator(work)) {
      if (entry.path().extension() == ".o") candidate.symbol = entry.path().stem().string();
    }
  }
  if (finished.code == 0) {
    finished =
        run({file.compiler, "-shared", "-s", "-Wl,-Bsymbolic", "-o",
             (request.folder / (candidate.symbol + ".so")).string(), (work / (candidate.symbol + ".o")).string()});
  }
  if (finished.code != 0) candidate.error = finished.output.empty() ? "no message" : finished.output;
  candidate.spilled_bytes = read_assembler_report(work / (candidate.symbol + ".ptxas")).spilled_bytes;
}

/// Out of the machine code, the rule that needs no knowledge of the family: registers that spill cost more than any
/// tunable gains, unless the default spills as much.
void leave_out_spilling(Instance& instance) {
  constexpr const char* kRule = "spills no more registers than the default";
  const int allowed = instance.candidates[0].spilled_bytes;
  const auto removed =
      std::erase_if(instance.candidates, [&](const Candidate& c) { return c.spilled_bytes > allowed; });
  if (removed > 0) instance.left_out[kRule] += static_cast<int>(removed);
}

std::vector<int64_t> sizes_of(const std::string& shape) {
  std::vector<int64_t> sizes;
  std::stringstream text(shape);
  for (std::string part; std::getline(text, part, 'x');) {
    char* end = nullptr;
    sizes.push_back(std::strtoll(part.c_str(), &end, 10));
    if (part.empty() || *end != 0 || sizes.back() < 1) {
      throw ValueError("ashlar-tune bundle", "a shape " + shape, "sizes from 1 with x between them",
                       "As in 1x512x512x512");
    }
  }
  return sizes;
}

/// `most` of them, evenly spread, the default always among them.
void thin_out(std::vector<Candidate>& candidates, int most) {
  const size_t count = candidates.size(), wanted = static_cast<size_t>(most);
  if (most <= 0 || count <= wanted) return;
  std::vector<Candidate> kept;
  for (size_t i = 0; i < wanted; i++) kept.push_back(candidates[i * count / wanted]);
  candidates = kept;
}

/// The instances that are asked for, each with its candidates not yet compiled.
std::vector<Instance> chosen(const KernelFile& file, const BundleRequest& request) {
  std::vector<Instance> instances;
  for (const std::string& kernel : request.kernels) {
    bool is_first = true;
    for (const json& space : file.spaces) {
      if (space["kernel"] != kernel) continue;
      const std::string name = space["instance"];
      const bool wanted = request.instances.empty() ? is_first : std::ranges::count(request.instances, name) > 0;
      is_first = false;
      if (!wanted) continue;
      Instance instance{kernel, name, space["key"], file.stem + ".so", {}, {}, space["left_out"]};
      for (const std::string& shape : request.shapes) instance.sizes.push_back(sizes_of(shape));
      for (const json& candidate : space["settings"]) {
        instance.candidates.push_back({candidate["tunables"], candidate["symbol"], "", 0});
      }
      thin_out(instance.candidates, request.most);
      instances.push_back(instance);
    }
  }
  return instances;
}

/// The first of the request's code targets on which it chooses as many instances as on the last, which has all.
std::string code_target_for(std::vector<KernelFile>& files, const BundleRequest& request) {
  const std::vector<std::string> targets = code_targets_of_request(request.target);
  if (targets.size() == 1) return targets[0];
  const auto count_on = [&](const std::string& target) {
    size_t count = 0;
    for (KernelFile& file : files) {
      file.read_spaces(target, request.cuda_capability);
      count += chosen(file, request).size();
    }
    return count;
  };
  const size_t all = count_on(targets.back());
  return *std::ranges::find_if(targets, [&](const std::string& target) { return count_on(target) == all; });
}

Instance instance_of(const json& value) {
  Instance instance;
  instance.kernel = get<std::string>(value, "kernel", "an instance");
  instance.name = get<std::string>(value, "name", "an instance");
  const std::string where = instance.kernel + " " + instance.name;
  instance.key = get<uint32_t>(value, "key", where);
  instance.library = get<std::string>(value, "library", where);
  instance.sizes = get<std::vector<std::vector<int64_t>>>(value, "sizes", where);
  for (const std::vector<int64_t>& sizes : instance.sizes) {
    for (const int64_t size : sizes) strict_json::whole_number(size, 1, INT32_MAX, where + ": a size");
  }
  for (const json& candidate : list(member(value, "candidates", where), where + ": candidates")) {
    instance.candidates.push_back(
        {get<Tunables>(candidate, "tunables", where), get<std::string>(candidate, "symbol", where),
         get<std::string>(candidate, "error", where), get<int>(candidate, "spilled_bytes", where)});
  }
  if (instance.candidates.empty()) throw Refusal(where + " without candidates");
  instance.left_out = get<std::map<std::string, int>>(value, "left_out", where);
  if (value.contains("judge")) instance.judge = get<std::string>(value, "judge", where);
  return instance;
}

Bundle bundle_of(const json& value) {
  Bundle bundle;
  bundle.target = get<std::string>(value, "target", "the bundle");
  const json& origin = member(value, "origin", "the bundle");
  bundle.origin = {get<std::string>(origin, "request", "origin"), get<std::string>(origin, "generators", "origin")};
  for (const json& instance : list(member(value, "instances", "the bundle"), "instances")) {
    bundle.instances.push_back(instance_of(instance));
  }
  if (bundle.instances.empty()) throw Refusal("a bundle without instances");
  return bundle;
}

/// A program and what it needs but the C library, which must be the machine's own.
void copy_program(const path& program, const path& folder, const std::string& name) {
  std::filesystem::copy_file(program, folder / name, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::create_directories(folder / "lib");
  std::stringstream lines(run({"ldd", (folder / name).string()}).output);
  for (std::string line; std::getline(lines, line);) {
    const size_t arrow = line.find("=> /"), end = line.find(" (");
    if (arrow == std::string::npos || end == std::string::npos) continue;
    const path library = line.substr(arrow + 3, end - arrow - 3);
    const std::string name = library.filename().string();
    const bool is_libc =
        std::ranges::any_of(std::vector<std::string>{"libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so"},
                            [&](const std::string& part) { return name.starts_with(part); });
    if (!is_libc) {
      const path to = folder / "lib" / name;
      // Of a bundle that is made again, ldd finds the libraries in the bundle itself.
      if (std::filesystem::exists(to) && std::filesystem::equivalent(library, to)) continue;
      std::filesystem::copy_file(library, to, std::filesystem::copy_options::overwrite_existing);
    }
  }
}

}  // namespace

std::string text_of(const Tunables& tunables) {
  std::string text;
  for (const auto& [name, value] : tunables) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text.empty() ? "default" : text;
}

std::string text_of(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) {
    if (!text.empty()) text += "x";
    text += std::to_string(size);
  }
  return text;
}

Bundle read_bundle(const path& folder) {
  const path file = folder / "bundle.json";
  const auto refuse = [&](const std::string& why) {
    throw DataError("ashlar-tune", file.string() + ": " + why, "a bundle", "Make it with ashlar-tune bundle");
  };
  std::ifstream in(file);
  if (!in) refuse("no such file");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  Bundle bundle;
  try {
    bundle = bundle_of(strict_json::parse(text));
  } catch (const Refusal& refusal) {
    refuse(refusal.what());
  }
  bundle.folder = folder;
  return bundle;
}

Origin origin_of(const BundleRequest& request) {
  Origin origin{json{request.kernels, request.instances, request.target, request.shapes, request.cuda_capability,
                     request.architectures, request.most}
                    .dump(),
                ""};
  for (const KernelFile& file : kernel_files(request.build)) {
    const auto time = std::filesystem::last_write_time(file.generator).time_since_epoch();
    origin.generators += file.generator.string() + " " + std::to_string(time.count()) + "\n";
  }
  return origin;
}

Bundle make_bundle(const BundleRequest& request) {
  Bundle bundle;
  bundle.folder = request.folder;
  bundle.origin = origin_of(request);
  std::vector<KernelFile> files = kernel_files(request.build);
  bundle.target = code_target_for(files, request);
  std::filesystem::create_directories(request.folder);
  std::filesystem::remove_all(request.folder / "work");
  std::set<std::string> missing(request.kernels.begin(), request.kernels.end());

  struct Job {
    const KernelFile* file;
    size_t instance, candidate;
  };
  std::vector<Job> jobs;
  std::set<std::string> unknown(request.instances.begin(), request.instances.end());
  std::map<std::string, path> judges;  // by their names in the bundle
  for (KernelFile& file : files) {
    file.read_spaces(bundle.target, request.cuda_capability);
    const std::vector<Instance> instances = chosen(file, request);
    if (instances.empty()) continue;
    link_kernels(file, bundle.target, request.folder);
    if (!file.conformance.empty() && !std::filesystem::exists(file.conformance)) {
      throw DataError("ashlar-tune bundle", "no " + file.conformance, "the program with the cases of " + file.stem,
                      "Build it first: candidates are judged by them");
    }
    for (Instance instance : instances) {
      missing.erase(instance.kernel);
      unknown.erase(instance.name);
      if (!file.conformance.empty()) {
        instance.judge = path(file.conformance).filename().string();
        judges[instance.judge] = file.conformance;
      }
      // Before anything is compiled, for minutes.
      const KernelInfo& kernel = open_kernel(request.folder / instance.library, instance.kernel);
      for (const std::vector<int64_t>& sizes : instance.sizes) check_shape(kernel, sizes);
      for (size_t c = 0; c < instance.candidates.size(); c++) jobs.push_back({&file, bundle.instances.size(), c});
      bundle.instances.push_back(instance);
    }
  }
  if (!missing.empty()) {
    throw ValueError("ashlar-tune bundle",
                     "no kernel or instance of " + *missing.begin() + " in " + request.build.string(),
                     "kernels that were built there", "ashlar-tune takes their names, and --instances as in f32_none");
  }
  if (!unknown.empty()) {
    throw ValueError("ashlar-tune bundle", "--instances " + *unknown.begin(), "instances of the kernels, as f32_none",
                     "ashlar-tune explain KERNEL names the first");
  }

  std::mutex mutex;
  int done = 0;
  in_parallel(static_cast<int>(jobs.size()), request.jobs, [&](int i) {
    const Job& job = jobs[static_cast<size_t>(i)];
    Instance& instance = bundle.instances[job.instance];
    compile_candidate(*job.file, instance, request, bundle.target, instance.candidates[job.candidate]);
    const std::lock_guard lock(mutex);
    std::fprintf(stderr, "\rcompiled %d of %zu ", ++done, jobs.size());
  });
  std::fputc('\n', stderr);
  for (Instance& instance : bundle.instances) leave_out_spilling(instance);
  std::filesystem::remove_all(request.folder / "work");
  copy_program("/proc/self/exe", request.folder, "ashlar-tune");
  for (const auto& [name, program] : judges) copy_program(program, request.folder, name);
  std::ofstream out(request.folder / "bundle.json");
  out << json(bundle).dump(1) << "\n";
  if (!out.flush()) throw DataError("ashlar-tune bundle", request.folder.string(), "a folder that can be written", "");
  return bundle;
}

}  // namespace ashlar::tune
