#include "dsl/build/compile.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "dsl/build/explain.h"
#include "dsl/build/settings.h"

namespace ashlar::dsl {
namespace {

using std::filesystem::path;

// The layout of runtime/launch/kernel.h's KernelInstance, TunedGrid and TargetTable, without its headers: a table
// compiles in milliseconds.
constexpr const char* kTableTypes =
    "struct Instance { unsigned key; int (*function)(void**); const char *symbol, *tunables, *device_functions; };\n"
    "struct Grid { unsigned key; unsigned long long device, family; const char* device_name;\n"
    "              unsigned char low[4], count[4]; const unsigned char* settings; };\n"
    "struct Table { const Instance* instances; int count; const Grid* grids; int grid_count;\n"
    "               unsigned long long code_hash; };\n";
static_assert(kMostSizes == 4 && sizeof(TunedGrid) == 48 && sizeof(KernelInstance) == 40 && sizeof(TargetTable) == 40);

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

std::string content_of(const path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw std::runtime_error("can't read " + file.string());
  return content;
}

/// One build with what the tables say about it.
struct TunedBuild {
  const Build* build;
  BuildSettings tuned;
};

std::vector<TunedBuild> tuned_builds(const KernelSummary& kernel, const std::vector<TunedTable>& measured) {
  std::vector<TunedBuild> builds;
  for (const Build& build : kernel.builds) builds.push_back({&build, settings_of(kernel, build, measured)});
  return builds;
}

/// Where a compiled function's GPU functions are listed until its table is written.
path list_of_functions(const path& folder, const std::string& symbol) { return folder / (symbol + ".functions"); }

/// The table of a kernel whose objects lie in the table's folder.
void write_table(const KernelSummary& kernel, const std::vector<TunedBuild>& builds, const std::string& code_target,
                 const path& file) {
  std::ofstream out(file);
  out << kTableTypes;
  struct Row {
    uint32_t key;
    std::string symbol, tunables, device_functions;
  };
  std::vector<Row> rows;
  std::string grids;
  int grid_count = 0;
  for (const auto& [build, tuned] : builds) {
    for (size_t s = 0; s < tuned.settings.size(); s++) {
      rows.push_back({with_setting(build->key.packed(), static_cast<int>(s)),
                      symbol_of(*kernel.entry, *build, code_target, tuned.settings[s]),
                      text_of(tuned.settings[s]),
                      {}});
      const path functions = list_of_functions(file.parent_path(), rows.back().symbol);
      if (std::filesystem::exists(functions)) rows.back().device_functions = content_of(functions);
      out << "extern \"C\" int " << rows.back().symbol << "_argv(void**);\n";
    }
    for (const Grid& grid : tuned.grids) {
      out << "static const unsigned char grid_" << grid_count << "[] = " << list_of(grid.settings) << ";\n";
      grids += "  {" + std::to_string(build->key.packed()) + "u, " + std::to_string(identity_hash(grid.device)) +
               "ull, " + std::to_string(identity_hash(grid.family)) + "ull, " + quoted(grid.device) + ", " +
               list_of(grid.low) + ", " + list_of(grid.count) + ", grid_" + std::to_string(grid_count++) + "},\n";
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.key < b.key; });
  out << "static const Instance instances[] = {\n";
  uint64_t code_hash = identity_hash({});
  for (const Row& row : rows) {
    out << "  {" << row.key << "u, " << row.symbol << "_argv, \"" << row.symbol << "\", " << quoted(row.tunables)
        << ", " << quoted(row.device_functions) << "},\n";
    code_hash = identity_hash(row.symbol, code_hash);
    code_hash = identity_hash(content_of(file.parent_path() / (row.symbol + ".o")), code_hash);
  }
  out << "};\n";
  if (grid_count > 0) out << "static const Grid grids[] = {\n" << grids << "};\n";
  out << "extern \"C\" const Table " << table_of(*kernel.entry, code_target) << " = {instances, " << rows.size() << ", "
      << (grid_count > 0 ? "grids, " : "nullptr, ") << grid_count << ", " << code_hash << "ull};\n";
  if (!out) throw std::runtime_error("can't write " + file.string());
}

void compile_instance(const Build& build, const Setting& setting, const Halide::Target& target,
                      const std::string& symbol, const path& folder, const DeviceTools& tools) {
  const auto kernel = create(build, target, setting);
  Halide::Module module = kernel->generator().build_module(symbol);
  const std::string functions = device_functions(module);
  if (!functions.empty()) std::ofstream(list_of_functions(folder, symbol)) << functions;
  if (target.has_feature(Halide::Target::CUDA)) {
    module = with_machine_code(module, tools, folder / symbol);
  } else if (target.has_feature(Halide::Target::OpenCL)) {
    module = with_plain_source(module);
  }
  module.compile({{Halide::OutputFileType::object, (folder / (symbol + ".o")).string()}});
}

/// One function to compile, as a line of a file: "matmul f32_none tile_rows=128 tile_depth=16".
struct Planned {
  std::string kernel, instance;
  Setting setting;

  friend std::istream& operator>>(std::istream& in, Planned& one) {
    std::string line;
    if (!std::getline(in, line)) return in;
    std::istringstream words(line);
    words >> one.kernel >> one.instance;
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
void write_plan(const std::string& code_target, const std::vector<TunedTable>& measured, const path& file) {
  std::vector<KernelSummary> summaries;
  for (const KernelEntry& entry : kernels()) summaries.push_back(summarize(entry, code_target));
  check_instances(summaries, measured);
  std::ofstream out(file);
  for (const KernelSummary& kernel : summaries) {
    for (const auto& [build, tuned] : tuned_builds(kernel, measured)) {
      for (const Setting& setting : tuned.settings) {
        out << kernel.entry->name << ' ' << build->name() << ' ' << text_of(setting) << '\n';
      }
    }
  }
  if (!out.flush()) throw std::runtime_error("can't write " + file.string());
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

int compile_kernels(const std::string& code_target, int cuda_capability, const path& folder, const path& tuned,
                    const DeviceTools& tools) {
  halide_target(code_target, cuda_capability);  // throws on an unknown name
  const std::vector<TunedTable> measured = read_tuned_tables(tuned);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  // What Halide has named before shows in what it compiles next, so this process makes nothing of Halide's before it
  // has compiled everything: which kernels there are in which settings, a child finds out.
  const path plan = folder / "plan";
  in_child("the tuned tables", [&] { write_plan(code_target, measured, plan); });
  int count = 0;
  std::ifstream planned(plan);
  for (Planned one; planned >> one; count++) {
    in_child(one.kernel + " " + one.instance, [&] {
      compile_setting(one.kernel, one.instance, code_target, cuda_capability, one.setting, folder, tools);
    });
  }
  std::ofstream objects(folder / "objects.rsp"), tables(folder / "tables.rsp");
  for (const KernelEntry& entry : kernels()) {
    const KernelSummary kernel = summarize(entry, code_target);
    const std::vector<TunedBuild> builds = tuned_builds(kernel, measured);
    for (const auto& [build, tuned] : builds) {
      for (const Setting& setting : tuned.settings) objects << symbol_of(entry, *build, code_target, setting) << ".o\n";
    }
    const std::string table = table_of(entry, code_target);
    write_table(kernel, builds, code_target, folder / (table + ".cpp"));
    tables << table << ".cpp\n";
    objects << table << ".o\n";
  }
  return count;
}

std::string compile_setting(const std::string& kernel, const std::string& instance, const std::string& code_target,
                            int cuda_capability, const Setting& setting, const path& folder, const DeviceTools& tools) {
  const Halide::Target target = halide_target(code_target, cuda_capability);
  const auto [entry, build] = find_build(kernel, instance);
  const std::string symbol = symbol_of(*entry, build, code_target, setting);
  std::filesystem::create_directories(folder);
  compile_instance(build, setting, target, symbol, folder, tools);
  return symbol;
}

void write_absent_tables(const path& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const std::string code_target : kCodeTargetNames) {
    std::ofstream out(folder / (code_target + ".cpp"));
    out << kTableTypes;
    for (const KernelEntry& entry : kernels()) {
      out << "extern \"C\" const Table " << table_of(entry, code_target) << " = {nullptr, 0, nullptr, 0, 0};\n";
    }
    if (!out) throw std::runtime_error("can't write to " + folder.string());
  }
}

}  // namespace ashlar::dsl
