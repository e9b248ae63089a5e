#include "dsl/build/tuned_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace ashlar::dsl {
namespace {

using nlohmann::json;
using std::filesystem::path;

[[noreturn]] void refuse(const path& file, const std::string& came, const std::string& needed) {
  throw DataError("tuned table " + file.string(), came, needed, "Write it with ashlar-tune apply");
}

/// Reads one file; every question names the rule that the answer breaks.
class Reader {
 public:
  explicit Reader(path file) : file_(std::move(file)) {}

  const json& member(const json& object, const char* name, json::value_t type, const std::string& where) const {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || found == object.end()) refuse(file_, where + " without \"" + name + "\"", "that member");
    if (found->type() != type && !(type == json::value_t::number_float && found->is_number())) {
      refuse(file_, where + ": \"" + name + "\" = " + found->dump(), "a " + std::string(json(type).type_name()));
    }
    return *found;
  }

  TunedPoint point(const json& value, const std::string& where) const {
    TunedPoint point;
    for (const json& size : member(value, "sizes", json::value_t::array, where)) {
      if (!size.is_number_integer() || size.get<int64_t>() < 1 || size.get<int64_t>() > INT32_MAX) {
        refuse(file_, where + ": a size of " + size.dump(), "whole numbers from 1 to 2147483647");
      }
      point.sizes.push_back(size.get<int64_t>());
    }
    for (const auto& [name, setting] : member(value, "tunables", json::value_t::object, where).items()) {
      if (!setting.is_string() && !setting.is_number_integer()) {
        refuse(file_, where + ": " + name + " = " + setting.dump(), "text or a whole number");
      }
      point.tunables[name] = setting.is_string() ? setting.get<std::string>() : setting.dump();
    }
    point.microseconds = member(value, "microseconds", json::value_t::number_float, where).get<double>();
    point.of_default = member(value, "of_default", json::value_t::number_float, where).get<double>();
    if (!(point.microseconds > 0) || !(point.of_default > 0)) {
      refuse(file_,
             where + ": a time of " + value["microseconds"].dump() + " or ratio of " + value["of_default"].dump(),
             "numbers above 0");
    }
    return point;
  }

  TunedTable table(const json& all) const {
    TunedTable table;
    table.file = file_;
    table.device = member(all, "device", json::value_t::string, "the file").get<std::string>();
    table.family = member(all, "family", json::value_t::string, "the file").get<std::string>();
    for (const auto& [kernel, instances] : member(all, "kernels", json::value_t::object, "the file").items()) {
      if (!instances.is_object()) refuse(file_, kernel + " = " + instances.dump(), "an object of instances");
      for (const auto& [instance, values] : instances.items()) {
        const std::string where = kernel + " " + instance;
        if (!values.is_array()) refuse(file_, where + " = " + values.dump(), "a list of points");
        std::vector<TunedPoint>& points = table.kernels[kernel][instance];
        for (const json& value : values) points.push_back(point(value, where));
        std::ranges::sort(points, {}, &TunedPoint::sizes);
        const auto twice = std::ranges::adjacent_find(points, {}, &TunedPoint::sizes);
        if (twice != points.end()) {
          refuse(file_, where + ": sizes " + json(twice->sizes).dump() + " twice", "each sizes once");
        }
      }
    }
    return table;
  }

 private:
  path file_;
};

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
  json all;
  try {
    all = json::parse(in);
  } catch (const json::exception& error) {
    refuse(file, error.what(), "JSON");
  }
  return Reader(file).table(all);
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
