// A kernel's axes as its tables have them: dimensions that must be of one size have one number.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dsl/descriptor.h"

namespace ashlar::dsl {

/// Numbers the axes in the order in which of_argument() meets them: call it on every argument, in order.
class KernelAxes {
 public:
  /// The number of each of its dimensions, as text.
  std::vector<std::string> of_argument(const ArgumentDescription& argument) {
    std::vector<std::string> numbers;
    for (int i = 0; i < argument.rank; i++) {
      const bool has_rule = static_cast<size_t>(i) < argument.sizes.size();
      const Size size = has_rule ? argument.sizes[static_cast<size_t>(i)] : Size{};
      // Where nothing rules its size it's an axis of its own, which later ones may name.
      const auto known = size.is_free() ? number_of_.end() : number_of_.find(size.text);
      const int number = known == number_of_.end() ? add(size) : known->second;
      if (argument.role == Argument::Role::input) {
        number_of_["in[" + std::to_string(inputs_) + "][" + std::to_string(i) + "]"] = number;
      }
      numbers.push_back(std::to_string(number));
    }
    inputs_ += argument.role == Argument::Role::input;
    return numbers;
  }

  /// Those met so far by their numbers, "" for one without a name.
  std::vector<std::string> names;

 private:
  int add(const Size& size) {
    names.push_back(size.dim == nullptr ? "" : size.dim->name);
    const int number = static_cast<int>(names.size()) - 1;
    if (!size.is_free()) number_of_[size.text] = number;
    return number;
  }
  std::map<std::string, int> number_of_;
  int inputs_ = 0;
};

}  // namespace ashlar::dsl
