#include "dsl/build/tuned_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "json/strict_json.h"
#include "runtime/launch/kernel.h"
#include "runtime/support/error.h"

namespace ashlar::dsl {
namespace {

using nlohmann::json;
using std::filesystem::path;
using strict_json::member;
using strict_json::Refusal;

[[noreturn]] void refuse(const path& file, const std::string& came, const std::string& needed) {
  throw DataError("tuned table " + file.string(), came, needed, "Write it with ashlar-tune apply");
}

/// A point out of its text; Refusal names the rule that it breaks.
TunedPoint point_of(const json& value, const std::string& where) {
  TunedPoint point;
  for (const json& size : strict_json::list(member(value, "sizes", where), where)) {
    point.sizes.push_back(strict_json::whole_number(size, 1, INT32_MAX, where + ": a size"));
  }
  for (const auto& [name, setting] :
       strict_json::object(member(value, "tunables", where), where + ": tunables").items()) {
    if (!setting.is_string() && !setting.is_number_integer()) {
      throw Refusal(where + ": " + name + " = " + strict_json::described(setting) +
                    " where text or a whole number belongs");
    }
    point.tunables[name] = setting.is_string() ? setting.get<std::string>() : setting.dump();
  }
  point.microseconds = strict_json::get<double>(value, "microseconds", where);
  point.of_default = strict_json::get<double>(value, "of_default", where);
  if (!(point.microseconds > 0) || !(point.of_default > 0)) {
    throw Refusal(where + ": a time of " + value["microseconds"].dump() + " or ratio of " + value["of_default"].dump() +
                  " where numbers above 0 belong");
  }
  return point;
}

TunedTable table_of(const json& all) {
  TunedTable table;
  table.device = strict_json::get<std::string>(all, "device", "the file");
  table.family = strict_json::get<std::string>(all, "family", "the file");
  for (const auto& [kernel, instances] : strict_json::object(member(all, "kernels", "the file"), "kernels").items()) {
    for (const auto& instance : strict_json::object(instances, kernel).items()) {
      const std::string where = kernel + " " + instance.key();
      std::vector<TunedPoint>& points = table.kernels[kernel][instance.key()];
      for (const json& value : strict_json::list(instance.value(), where)) points.push_back(point_of(value, where));
      std::ranges::sort(points, {}, &TunedPoint::sizes);
      const auto twice = std::ranges::adjacent_find(points, {}, &TunedPoint::sizes);
      if (twice != points.end()) {
        throw Refusal(where + ": sizes " + json(twice->sizes).dump() + " twice where each sizes belong once");
      }
    }
  }
  return table;
}

/// Four digits are what a measurement is good for.
json rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::stod(text);
}

bool is_whole_number(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

std::string line_of(const TunedPoint& point) {
  std::string sizes, tunables;
  for (const int64_t size : point.sizes) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  for (const auto& [name, value] : point.tunables) {
    tunables += (tunables.empty() ? "" : ", ") + json(name).dump() + ": " +
                (is_whole_number(value) ? value : json(value).dump());
  }
  return "{\"sizes\": [" + sizes + "], \"tunables\": {" + tunables +
         "}, \"microseconds\": " + rounded(point.microseconds).dump() +
         ", \"of_default\": " + rounded(point.of_default).dump() + "}";
}

}  // namespace

TunedTable read_tuned_table(const path& file) {
  std::ifstream in(file);
  if (!in) refuse(file, "no such file", "a file that can be read");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  try {
    TunedTable table = table_of(strict_json::parse(text));
    table.file = file;
    return table;
  } catch (const Refusal& refusal) {
    refuse(file, refusal.what(), "a tuned table");
  }
}

std::vector<TunedTable> read_tuned_tables(const path& folder) {
  std::vector<path> files;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::vector<TunedTable> tables;
  for (const path& file : files) tables.push_back(read_tuned_table(file));
  return tables;
}

std::string text_of(const std::vector<TunedPoint>& points) {
  std::vector<TunedPoint> sorted = points;
  std::ranges::sort(sorted, {}, &TunedPoint::sizes);
  std::string text;
  for (const TunedPoint& point : sorted) text += (text.empty() ? "    " : ",\n    ") + line_of(point);
  return text;
}

void write_tuned_table(const TunedTable& table, const path& file) {
  std::string kernels;
  for (const auto& [kernel, instances] : table.kernels) {
    std::string lists;
    for (const auto& [instance, points] : instances) {
      lists += (lists.empty() ? "\n   " : ",\n   ") + json(instance).dump() + ": [\n" + text_of(points) + "\n   ]";
    }
    kernels += (kernels.empty() ? "\n  " : ",\n  ") + json(kernel).dump() + ": {" + lists + "\n  }";
  }
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  // Beside the old one first: an interrupt leaves either the old table or the new one.
  const path partial = file.string() + ".part";
  std::ofstream out(partial);
  out << "{\n \"device\": " << json(table.device).dump() << ",\n \"family\": " << json(table.family).dump()
      << ",\n \"kernels\": {" << kernels << "\n }\n}\n";
  if (!out.flush())
    refuse(file, "a disk that took no more, or a folder that isn't there", "a file that can be written");
  out.close();
  std::filesystem::rename(partial, file);
}

std::map<uint64_t, const TunedPoint*> deciding_points(const std::vector<TunedPoint>& points) {
  std::map<uint64_t, const TunedPoint*> of_class;
  for (const TunedPoint& point : points) {
    if (point.tunables.empty()) continue;
    const TunedPoint*& best = of_class[half_octaves(point.sizes)];
    if (best == nullptr || point.of_default < best->of_default) best = &point;
  }
  return of_class;
}

std::string table_file_name(const std::string& device) {
  std::string name;
  for (const unsigned char c : device) {
    if (std::isalnum(c))
      name += static_cast<char>(std::tolower(c));
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return (name.empty() ? "device" : name) + ".json";
}

}  // namespace ashlar::dsl
