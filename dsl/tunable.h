// Parameters of a kernel: Comptime changes what is computed, Tunable only how fast.
#pragma once

#include <map>
#include <sstream>

#include "dsl/descriptor.h"

namespace ashlar::dsl {

namespace detail {
template <class T>
std::string to_text(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
}  // namespace detail

/// A choice of the schedule, from a list; the first value is the default. A value outside the list is an error.
/// Which values are quickest on a device and for a size is what ashlar-tune finds out.
template <class T>
class Tunable : public Halide::GeneratorParam<T> {
 public:
  Tunable(const std::string& name, std::vector<T> values, On on = On::everywhere)
      : Halide::GeneratorParam<T>(name, values.at(0)), values_(std::move(values)) {
    std::vector<std::string> texts;
    for (const T& value : values_) texts.push_back(detail::to_text(value));
    Descriptor::current->parameters.push_back(
        {name, texts, false, [this] { return detail::to_text(this->value()); }, on});
  }

 private:
  std::vector<T> values_;
};

/// A rule of the kernel under construction by which the tuner prunes its space before it compiles: registers, local
/// memory, occupancy as far as the tunables tell. For constructors, a kernel's or a family's tunables'. `holds` is
/// asked with the tunables set; it may read Descriptor::target.
inline void space_rule(std::string text, std::function<bool()> holds) {
  Descriptor::current->space_rules.push_back({std::move(text), std::move(holds)});
}

/// A choice of what is computed, from named values; every combination of a kernel's comptime values is compiled.
template <class E>
class Comptime : public Halide::GeneratorParam<E> {
 public:
  Comptime(const std::string& name, std::vector<std::pair<std::string, E>> values)
      : Halide::GeneratorParam<E>(name, values.at(0).second, std::map<std::string, E>(values.begin(), values.end())) {
    std::vector<std::string> texts;
    for (const auto& [text, value] : values) texts.push_back(text);
    Descriptor::current->parameters.push_back({name, texts, true, [this, values] {
                                                 for (const auto& [text, value] : values) {
                                                   if (value == this->value()) return text;
                                                 }
                                                 return std::string();
                                               }});
  }
};

}  // namespace ashlar::dsl
