#include "dsl/build/compile.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "dsl/build/explain.h"
#include "dsl/build/settings.h"

namespace ashlar::dsl {
namespace {

using std::filesystem::path;

// The layout of runtime/kernel.h's KernelInstance, TunedGrid and TargetTable, without its headers: a table compiles in
// milliseconds.
constexpr const char* kTableTypes =
    "struct Instance { unsigned key; int (*function)(void**); const char* symbol; const char* tunables; };\n"
    "struct Grid { unsigned key; unsigned long long device, family; const char* device_name;\n"
    "              unsigned char low[4], count[4]; const unsigned char* settings; };\n"
    "struct Table { const Instance* instances; int count; const Grid* grids; int grid_count; };\n";
static_assert(kMostSizes == 4 && sizeof(TunedGrid) == 48 && sizeof(KernelInstance) == 32 && sizeof(TargetTable) == 32);

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

/// One build with what the tables say about it.
struct TunedBuild {
  const Build* build;
  BuildSettings tuned;
};

void write_table(const KernelSummary& kernel, const std::vector<TunedBuild>& builds, const std::string& code_target,
                 const path& file) {
  std::ofstream out(file);
  out << kTableTypes;
  struct Row {
    uint32_t key;
    std::string symbol, tunables;
  };
  std::vector<Row> rows;
  std::string grids;
  int grid_count = 0;
  for (const auto& [build, tuned] : builds) {
    for (size_t s = 0; s < tuned.settings.size(); s++) {
      rows.push_back({with_setting(build->key.packed(), static_cast<int>(s)),
                      symbol_of(*kernel.entry, *build, code_target, tuned.settings[s]), text_of(tuned.settings[s])});
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
  for (const Row& row : rows) {
    out << "  {" << row.key << "u, " << row.symbol << "_argv, \"" << row.symbol << "\", " << quoted(row.tunables)
        << "},\n";
  }
  out << "};\n";
  if (grid_count > 0) out << "static const Grid grids[] = {\n" << grids << "};\n";
  out << "extern \"C\" const Table " << table_of(*kernel.entry, code_target) << " = {instances, " << rows.size() << ", "
      << (grid_count > 0 ? "grids, " : "nullptr, ") << grid_count << "};\n";
  if (!out) throw std::runtime_error("can't write " + file.string());
}

void compile_instance(const Build& build, const Setting& setting, const Halide::Target& target,
                      const std::string& symbol, const path& folder, const DeviceTools& tools) {
  const auto kernel = create(build, target, setting);
  Halide::Module module = kernel->generator().build_module(symbol);
  if (target.has_feature(Halide::Target::CUDA)) {
    module = with_machine_code(module, tools, folder / symbol);
  } else if (target.has_feature(Halide::Target::OpenCL)) {
    module = with_plain_source(module);
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

int compile_kernels(const std::string& code_target, int cuda_capability, const path& folder, const path& tuned,
                    const DeviceTools& tools) {
  const Halide::Target target = halide_target(code_target, cuda_capability);
  const std::vector<TunedTable> measured = read_tuned_tables(tuned);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream objects(folder / "objects.rsp"), tables(folder / "tables.rsp");
  int count = 0;
  std::vector<KernelSummary> summaries;
  for (const KernelEntry& entry : kernels()) summaries.push_back(summarize(entry, code_target));
  check_instances(summaries, measured);
  for (const KernelSummary& kernel : summaries) {
    std::vector<TunedBuild> builds;
    for (const Build& build : kernel.builds) {
      builds.push_back({&build, settings_of(kernel, build, measured)});
      for (const Setting& setting : builds.back().tuned.settings) {
        const std::string symbol = symbol_of(*kernel.entry, build, code_target, setting);
        in_child(symbol, [&] { compile_instance(build, setting, target, symbol, folder, tools); });
        objects << symbol << ".o\n";
        count++;
      }
    }
    const std::string table = table_of(*kernel.entry, code_target);
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
      out << "extern \"C\" const Table " << table_of(entry, code_target) << " = {nullptr, 0, nullptr, 0};\n";
    }
    if (!out) throw std::runtime_error("can't write to " + folder.string());
  }
}

}  // namespace ashlar::dsl
