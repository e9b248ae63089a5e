#include "dsl/build/compile.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "dsl/build/digest.h"
#include "dsl/build/explain.h"
#include "dsl/build/files.h"
#include "dsl/build/job_slots.h"
#include "dsl/build/plan_code.h"
#include "dsl/build/settings.h"

namespace ashlar::dsl {
namespace {

using std::filesystem::path;

// The layout of runtime/launch/kernel.h's KernelInstance, TunedGrid, PlanSet and TargetTable, without its headers: a
// table compiles in milliseconds.
constexpr const char* kTableTypes =
    "struct Instance { unsigned long long key; int (*function)(void**);\n"
    "                  const char *symbol, *tunables, *device_functions, *plan; int plan_index; };\n"
    "struct Grid { unsigned key; unsigned long long device, family; const char* device_name;\n"
    "              unsigned char low[8], count[8]; const unsigned short* settings; };\n"
    "struct Feature { unsigned char argument, dimension, field; };\n"
    "struct Plans { unsigned key; int count; const unsigned short* settings; const Feature* features; int "
    "feature_count;\n"
    "               void (*judge)(const int*, unsigned long long*, unsigned long long*);\n"
    "               void (*cost)(const int*, const double*, double*); };\n"
    "struct Tuned { unsigned long long device, family; const char* device_name; int count;\n"
    "               const unsigned long long* classes; const unsigned char* plans; };\n"
    "struct Table { const Instance* instances; int count; const Grid* grids; int grid_count;\n"
    "               unsigned long long code_hash; const Plans* plans; int plan_count;\n"
    "               const Tuned* tuned_plans; int tuned_plans_count; };\n";
static_assert(kMostSizes == 8 && sizeof(TunedGrid) == 56 && sizeof(KernelInstance) == 56 && sizeof(TargetTable) == 72 &&
              sizeof(PlanFeature) == 3 && sizeof(PlanSet) == 48 && sizeof(TunedPlans) == 48);

std::string list_of(const auto& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "{" + text + "}";
}

// A string literal of C++: names of devices come from drivers.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// ---- what a program may leave out, by its property ASHLAR_DTYPES: the instances of these dtypes lie in objects of
// their own. Tables refer to those weakly, which takes nothing out of an archive, and to a name that comes with the
// object, or with an empty one where the dtype is left out.

constexpr std::array kOptionalDTypes{DType::f64, DType::bf16, DType::f16};

/// "f16" for an instance that goes with that dtype, or nothing.
std::string optional_dtype_of(const Build& build) {
  for (const DType dtype : kOptionalDTypes) {
    if (std::ranges::count(build.instance->elements, dtype)) return std::string(name_of(dtype));
  }
  return {};
}

/// "objects_f16": the list of objects in which an instance stands.
std::string object_of(const Build& build) {
  const std::string dtype = optional_dtype_of(build);
  return dtype.empty() ? "objects" : "objects_" + dtype;
}

/// The name: one for a kernel file, called by its first kernel.
std::string linked_name(const std::string& code_target, const std::string& dtype) {
  return "ashlar_linked_" + kernels().front().name + "_" + code_target + "_" + dtype;
}
void define_linked_name(std::ostream& out, const std::string& code_target, const std::string& dtype) {
  out << "extern \"C\" { extern const char " << linked_name(code_target, dtype) << "; const char "
      << linked_name(code_target, dtype) << " = 0; }\n";
}

/// One build with what the tables say about it.
struct TunedBuild {
  const Build* build;
  std::vector<PlanDescription> plans;
  BuildSettings tuned;
};

std::vector<TunedBuild> tuned_builds(const KernelSummary& kernel, const std::vector<TunedTable>& measured,
                                     const Compiling& with) {
  std::vector<TunedBuild> builds;
  for (const Build& build : kernel.builds) {
    std::vector<PlanDescription> plans = kernel.descriptor.has_plans
                                             ? plans_of(build, with.code_target, with.cuda_capability)
                                             : std::vector<PlanDescription>{};
    BuildSettings tuned = settings_of(kernel, build, measured, plans);
    builds.push_back({&build, std::move(plans), std::move(tuned)});
  }
  return builds;
}

/// The place of a setting's plan among them; -1: it has none.
int index_of_plan(const std::vector<PlanDescription>& plans, const Setting& setting) {
  const auto found = std::ranges::find(plans, plan_of(setting), &PlanDescription::name);
  return found == plans.end() ? -1 : static_cast<int>(found - plans.begin());
}

/// The tunables of a setting as a table shows them: without its plan.
std::string tunables_of(const Setting& setting) {
  return text_of(plan_of(setting).empty() ? setting : Setting(setting.begin() + 1, setting.end()));
}

/// Where a compiled function's GPU functions are listed until its table is written.
path list_of_functions(const path& folder, const std::string& symbol) { return folder / (symbol + ".functions"); }

/// What the tables say of the form's or operator's own plans; of how many devices.
int write_tuned_plans(std::ostream& out, const KernelSummary& kernel, const std::vector<TunedTable>& measured) {
  const std::vector<MeasuredPlans> all = measured_plans(kernel, measured);
  std::string devices;
  for (size_t i = 0; i < all.size(); i++) {
    const std::string number = std::to_string(i);
    std::string classes;
    for (const uint64_t one : all[i].classes) classes += (classes.empty() ? "" : ", ") + std::to_string(one) + "ull";
    out << "static const unsigned long long plan_classes_" << number << "[] = {" << classes << "};\n"
        << "static const unsigned char plans_of_classes_" << number << "[] = " << list_of(all[i].plans) << ";\n";
    devices += "  {" + std::to_string(identity_hash(all[i].device)) + "ull, " +
               std::to_string(identity_hash(all[i].family)) + "ull, " + quoted(all[i].device) + ", " +
               std::to_string(all[i].plans.size()) + ", plan_classes_" + number + ", plans_of_classes_" + number +
               "},\n";
  }
  if (!all.empty()) out << "static const Tuned tuned_plans[] = {\n" << devices << "};\n";
  return static_cast<int>(all.size());
}

/// The table of a kernel whose objects lie in the table's folder.
void write_table(const KernelSummary& kernel, const std::vector<TunedBuild>& builds,
                 const std::vector<TunedTable>& measured, const std::string& code_target, const path& file) {
  std::ofstream out(file);
  out << kTableTypes;
  struct Row {
    uint64_t key;
    std::string symbol, tunables, device_functions, plan;
    int plan_index;
  };
  std::vector<Row> rows;
  std::string grids, plan_sets;
  int grid_count = 0, plan_count = 0;
  std::set<std::string> written;
  uint64_t code_hash = identity_hash({});
  std::set<std::string> dtypes;
  for (const auto& [build, plans, tuned] : builds) {
    const std::string dtype = optional_dtype_of(*build);
    if (!dtype.empty()) dtypes.insert(dtype);
    for (size_t s = 0; s < tuned.settings.size(); s++) {
      rows.push_back({with_setting(build->key.packed(), static_cast<int>(s)),
                      symbol_of(*kernel.entry, *build, code_target, tuned.settings[s]),
                      tunables_of(tuned.settings[s]),
                      {},
                      plan_of(tuned.settings[s]),
                      index_of_plan(plans, tuned.settings[s])});
      const path functions = list_of_functions(file.parent_path(), rows.back().symbol);
      if (std::filesystem::exists(functions)) rows.back().device_functions = read_file(functions);
      out << "extern \"C\" int " << rows.back().symbol << "_argv(void**)"
          << (dtype.empty() ? ";\n" : " __attribute__((weak));\n");
    }
    for (const Grid& grid : tuned.grids) {
      out << "static const unsigned short grid_" << grid_count << "[] = " << list_of(grid.settings) << ";\n";
      grids += "  {" + std::to_string(build->key.packed()) + "u, " + std::to_string(identity_hash(grid.device)) +
               "ull, " + std::to_string(identity_hash(grid.family)) + "ull, " + quoted(grid.device) + ", " +
               list_of(grid.low) + ", " + list_of(grid.count) + ", grid_" + std::to_string(grid_count++) + "},\n";
    }
    if (plans.empty()) continue;
    const PlanCode code = plan_code(kernel, plans);
    if (written.empty()) out << kPlanHelpers;
    if (written.insert(code.name).second) out << code.text;
    code_hash = identity_hash(code.text, code_hash);  // a changed condition sends calls to other code
    std::vector<int> settings;  // the last plan has setting 0, and the others follow (settings_of())
    for (size_t i = 0; i < plans.size(); i++) settings.push_back(static_cast<int>((i + 1) % plans.size()));
    const std::string number = std::to_string(plan_count++);
    out << "static const unsigned short plan_settings_" << number << "[] = " << list_of(settings) << ";\n";
    plan_sets += "  {" + std::to_string(build->key.packed()) + "u, " + std::to_string(plans.size()) +
                 ", plan_settings_" + number + ", features_" + code.name + ", " + std::to_string(code.features) +
                 ", judge_" + code.name + ", " + (code.has_model ? "cost_" + code.name : "nullptr") + "},\n";
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.key < b.key; });
  for (const std::string& dtype : dtypes) {
    const std::string name = linked_name(code_target, dtype);
    out << "extern \"C\" const char " << name << ";\n__attribute__((used)) static const char* const needs_" << dtype
        << " = &" << name << ";\n";
  }
  out << "static const Instance instances[] = {\n";
  for (const Row& row : rows) {
    out << "  {" << row.key << "ull, " << row.symbol << "_argv, \"" << row.symbol << "\", " << quoted(row.tunables)
        << ", " << quoted(row.device_functions) << ", " << quoted(row.plan) << ", " << row.plan_index << "},\n";
    code_hash = identity_hash(row.symbol, code_hash);
    code_hash = identity_hash(read_file(file.parent_path() / (row.symbol + ".o")), code_hash);
  }
  out << "};\n";
  if (grid_count > 0) out << "static const Grid grids[] = {\n" << grids << "};\n";
  if (plan_count > 0) out << "static const Plans plans[] = {\n" << plan_sets << "};\n";
  const int tuned_plans = write_tuned_plans(out, kernel, measured);
  out << "extern \"C\" const Table " << table_of(*kernel.entry, code_target) << " = {instances, " << rows.size() << ", "
      << (grid_count > 0 ? "grids, " : "nullptr, ") << grid_count << ", " << code_hash << "ull, "
      << (plan_count > 0 ? "plans, " : "nullptr, ") << plan_count << ", "
      << (tuned_plans > 0 ? "tuned_plans, " : "nullptr, ") << tuned_plans << "};\n";
  if (!out) throw std::runtime_error("can't write " + file.string());
}

/// One function to compile, as a line of a file: "matmul f32_none ashlar_… objects tile_rows=128 tile_depth=16".
struct Planned {
  std::string kernel, instance, symbol;
  std::string object;  ///< "objects", or "objects_f16" for what a program may leave out
  Setting setting;

  friend std::istream& operator>>(std::istream& in, Planned& one) {
    std::string line;
    if (!std::getline(in, line)) return in;
    std::istringstream words(line);
    words >> one.kernel >> one.instance >> one.symbol >> one.object;
    one.setting.clear();
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      one.setting.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
    return in;
  }
};

/// Writes one for each instance and each setting of its tunables that a table uses. Throws DataError on a table that
/// doesn't fit.
void write_plan(const Compiling& with, const std::vector<TunedTable>& measured, const path& file) {
  const std::string& code_target = with.code_target;
  std::vector<KernelSummary> summaries;
  for (const KernelEntry& entry : kernels()) summaries.push_back(summarize(entry, code_target));
  check_instances(summaries, measured);
  std::ofstream out(file);
  for (const KernelSummary& kernel : summaries) {
    for (const auto& [build, plans, tuned] : tuned_builds(kernel, measured, with)) {
      for (const Setting& setting : tuned.settings) {
        out << kernel.entry->name << ' ' << build->name() << ' '
            << symbol_of(*kernel.entry, *build, code_target, setting) << ' ' << object_of(*build) << ' '
            << text_of(setting) << '\n';
      }
    }
  }
  if (!out.flush()) throw std::runtime_error("can't write " + file.string());
}

/// Child processes, each with one piece of work. Halide numbers its names per process.
class Children {
 public:
  /// Waits while there are `most` of them.
  explicit Children(int most) : most_(most) {}

  template <class Work>
  void start(const std::string& what, Work work) {
    while (static_cast<int>(running_.size()) >= most_) wait_for_one();
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child > 0) {
      running_[child] = what;
      return;
    }
    int code = 1;
    try {
      work();
      code = 0;
    } catch (const Halide::Error& error) {  // no std::exception
      std::cerr << what + ": " + error.what() + "\n";
    } catch (const std::exception& error) {
      std::cerr << what + ": " + error.what() + "\n";
    }
    _exit(code);
  }

  /// Waits for all. Throws when one has failed.
  void finish() {
    while (!running_.empty()) wait_for_one();
    if (!failed_.empty()) throw std::runtime_error("compiling " + failed_ + " failed");
  }

 private:
  void wait_for_one() {
    int status = 0;
    const auto child = running_.find(waitpid(-1, &status, 0));
    if (child == running_.end()) return;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed_ += (failed_.empty() ? "" : ", ") + child->second;
    running_.erase(child);
  }

  const int most_;
  std::map<pid_t, std::string> running_;
  std::string failed_;
};

/// Where a child writes its instance's key, and "kept" or "compiled".
path key_file(const path& folder, const Planned& one) { return folder / (one.symbol + ".key"); }

std::pair<std::string, std::string> key_and_origin(const path& folder, const Planned& one) {
  std::ifstream file(key_file(folder, one));
  std::pair<std::string, std::string> result{{}, "kept"};  // what was fetched by the program's key has no file
  file >> result.first >> result.second;
  return result;
}

void compile_all(const std::vector<Planned>& plan, const Compiling& with, const path& folder, const path& slots) {
  Children children(slots.empty() ? 1 : processors());
  for (const Planned& one : plan) {
    children.start(one.kernel + " " + one.instance + " for " + with.code_target, [&] {
      const JobSlot slot(slots);
      const auto [entry, build] = find_build(one.kernel, one.instance);
      const InstanceCode code = compile_instance(build, one.setting, with, one.symbol, folder);
      write_file(key_file(folder, one), code.key + (code.was_kept ? " kept\n" : " compiled\n"));
    });
  }
  children.finish();
}

// ---- what this very program has compiled before, for the same target with the same tools and tables: the keys of all
// its instances, by which they are fetched without lowering a kernel

constexpr const char* kKeys = "keys";

std::string key_of_program(const Compiling& with, const std::vector<TunedTable>& measured) {
  Digest digest;
  digest.add(identity_of_program());
  digest.add(identity_of_halide());
  digest.add(with.code_target);
  digest.add(static_cast<uint64_t>(with.cuda_capability));
  digest.add(with.tools.identity);
  for (const std::string& architecture : with.tools.architectures) digest.add(architecture);
  digest.add(tuned_text(measured));
  return digest.text();
}

bool fetch_all(const std::vector<Planned>& plan, const std::string& key, const Compiling& with, const path& folder) {
  if (!with.cache.fetch("generators", key, folder)) return false;
  std::istringstream keys(read_file(folder / kKeys));
  return std::ranges::all_of(plan, [&](const Planned&) {
    std::string instance;
    return keys >> instance && fetch_instance(instance, with, folder);
  });
}

void keep_all(const std::vector<Planned>& plan, const std::string& key, const Compiling& with, const path& folder) {
  std::string keys;
  for (const Planned& one : plan) keys += key_and_origin(folder, one).first + '\n';
  write_file(folder / kKeys, keys);
  with.cache.keep("generators", key, {folder / kKeys});
}

}  // namespace

void compile_kernels(const Compiling& with, const path& folder, const path& tuned, const path& slots) {
  halide_target(with.code_target, with.cuda_capability);  // throws on an unknown name
  const std::vector<TunedTable> measured = read_tuned_tables(tuned);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  // What Halide has named before shows in what it compiles next, so this process makes nothing of Halide's before it
  // has compiled everything: which kernels there are in which settings, a child finds out.
  const path plan_file = folder / "plan";
  Children planner(1);
  planner.start("the tuned tables", [&] { write_plan(with, measured, plan_file); });
  planner.finish();
  std::vector<Planned> plan;
  std::ifstream lines(plan_file);
  for (Planned one; lines >> one;) plan.push_back(one);

  const std::string key = key_of_program(with, measured);
  if (!fetch_all(plan, key, with, folder)) {
    compile_all(plan, with, folder, slots);
    keep_all(plan, key, with, folder);
  }

  std::ofstream tables(folder / "tables.rsp"), report(folder / "report.tsv");
  std::map<std::string, std::string> objects;
  for (const DType dtype : kOptionalDTypes) {
    const std::string name(name_of(dtype)), linked = "linked_" + name;
    std::ofstream source(folder / (linked + ".cpp"));
    define_linked_name(source, with.code_target, name);
    tables << linked << ".cpp\n";
    objects["objects_" + name] = linked + ".o\n";
  }
  for (const Planned& one : plan) {
    objects[one.object] += one.symbol + ".o\n";
    const Cost cost = cost_of(folder, one.symbol);
    report << one.kernel << '\t' << one.instance << '\t' << text_of(one.setting) << '\t' << cost.seconds << '\t'
           << cost.bytes << '\t' << key_and_origin(folder, one).second << '\n';
  }
  for (const KernelEntry& entry : kernels()) {
    const KernelSummary kernel = summarize(entry, with.code_target);
    const std::string table = table_of(entry, with.code_target);
    write_table(kernel, tuned_builds(kernel, measured, with), measured, with.code_target, folder / (table + ".cpp"));
    tables << table << ".cpp\n";
    objects["objects"] += table + ".o\n";
  }
  for (const auto& [list, files] : objects) write_file(folder / (list + ".rsp"), files);
}

std::string compile_setting(const std::string& kernel, const std::string& instance, const Compiling& with,
                            const Setting& setting, const path& folder) {
  const auto [entry, build] = find_build(kernel, instance);
  const std::string symbol = symbol_of(*entry, build, with.code_target, setting);
  std::filesystem::create_directories(folder);
  compile_instance(build, setting, with, symbol, folder);
  return symbol;
}

void write_absent_tables(const path& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const std::string code_target : kCodeTargetNames) {
    std::ofstream out(folder / (code_target + ".cpp"));
    out << kTableTypes;
    for (const KernelEntry& entry : kernels()) {
      out << "extern \"C\" const Table " << table_of(entry, code_target)
          << " = {nullptr, 0, nullptr, 0, 0, nullptr, 0, nullptr, 0};\n";
    }
    if (!out) throw std::runtime_error("can't write to " + folder.string());
    for (const DType dtype : kOptionalDTypes) {
      const std::string name(name_of(dtype));
      std::ofstream linked(folder / (code_target + "_" + name + ".cpp"));
      define_linked_name(linked, code_target, name);
    }
  }
}

}  // namespace ashlar::dsl
