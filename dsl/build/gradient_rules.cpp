#include "dsl/build/gradient_rules.h"

#include <algorithm>
#include <cctype>

#include "dsl/mistake.h"

namespace ashlar::dsl {
namespace {

bool can_begin_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool can_be_in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Calls name(word, begin, end) for every identifier that is no member, and returns how far to go on; between(c) for all
// other characters and words.
template <class Name, class Between>
void scan(const std::string& expression, Name name, Between between) {
  for (size_t i = 0; i < expression.size();) {
    if (!can_begin_name(expression[i])) {
      // 0x1f and 1e5f are numbers, no names
      const bool is_number = std::isdigit(static_cast<unsigned char>(expression[i])) != 0;
      do {
        between(expression[i++]);
      } while (is_number && i < expression.size() && can_be_in_name(expression[i]));
      continue;
    }
    size_t end = i;
    while (end < expression.size() && can_be_in_name(expression[end])) end++;
    const std::string word = expression.substr(i, end - i);
    const bool is_member = i > 0 && expression[i - 1] == '.';
    if (is_member) {
      for (; i < end; i++) between(expression[i]);
    } else {
      i = name(word, end);
    }
  }
}

}  // namespace

std::string upstream_of(const std::string& output) { return "d" + output; }
std::string upstream_or_none_of(const std::string& output) { return upstream_of(output) + "_or_none"; }

std::set<std::string> names_in(const std::string& expression) {
  std::set<std::string> names;
  const auto name = [&](const std::string& word, size_t end) {
    names.insert(word);
    return end;
  };
  scan(expression, name, [](char) {});
  return names;
}

std::string with_shapes_apart(const std::string& expression, const std::set<std::string>& tensors,
                              std::set<std::string>& saved, std::set<std::string>& shaped) {
  static const std::string kShape = ".shape()";
  std::string result;
  const auto name = [&](const std::string& word, size_t end) {
    result += word;
    if (tensors.count(word) == 0) return end;
    if (expression.compare(end, kShape.size(), kShape) != 0) {
      saved.insert(word);
      return end;
    }
    shaped.insert(word);
    result += "_shape";
    return end + kShape.size();
  };
  scan(expression, name, [&](char c) { result += c; });
  return result;
}

void check_gradient_rules(const Descriptor& descriptor) {
  if (descriptor.gradients.empty()) return;
  std::set<std::string> upstreams, ruled;
  std::string outputs;
  for (const ArgumentDescription& argument : descriptor.arguments) {
    if (argument.role != Argument::Role::output) continue;
    if (argument.in_place_of >= 0) {
      mistake("has a gradient, and its output " + argument.name +
              " is written over an input: what a gradient needs of that input is gone then; write to an output of its "
              "own");
    }
    upstreams.insert(upstream_of(argument.name));
    outputs += (outputs.empty() ? "" : ", ") + upstream_of(argument.name) + " for " + argument.name;
  }
  for (const ArgumentDescription& argument : descriptor.arguments) {
    if (upstreams.count(argument.name) != 0) {
      mistake("its argument is called " + argument.name + ", which in its gradients is dL/d(" +
              argument.name.substr(1) + "), " + argument.name.substr(1) +
              " being an output: give one of them another name");
    }
    if (argument.name == "needs") {
      mistake("its argument is called needs, which in gradients tells what is wanted: give it another name");
    }
  }
  for (const GradientRule& rule : descriptor.gradients) {
    const bool is_joint = rule.input == kAllInputs;
    if (!is_joint && descriptor.input_index(rule.input) < 0) {
      mistake("a gradient for " + rule.input + ", which is no input");
    }
    if (!ruled.insert(rule.input).second || (is_joint && descriptor.gradients.size() > 1)) {
      mistake("two gradients for " +
              (is_joint ? std::string("an input: the one of all inputs, and another") : rule.input + ": state one"));
    }
    const std::set<std::string> names = names_in(rule.expression);
    const bool is_argument = std::ranges::any_of(
        descriptor.arguments, [](const ArgumentDescription& argument) { return argument.name == "dy"; });
    if (names.count("dy") != 0 && upstreams.count("dy") == 0 && !is_argument) {
      mistake("a gradient names dy, which is dL/dy, and there's no output y: write " + outputs);
    }
  }
}

}  // namespace ashlar::dsl
