// What a kernel says about its gradients (Descriptor::gradients), as text of C++: the names in it, and its mistakes.
#pragma once

#include <set>
#include <string>

#include "dsl/descriptor.h"

namespace ashlar::dsl {

/// "dy" for the output y: what dL/d(output) is called in gradients.
std::string upstream_of(const std::string& output);
/// "dy_or_none": the same, undefined where nothing came back to that output.
std::string upstream_or_none_of(const std::string& output);

/// The identifiers of a C++ expression that aren't members: "x" and "f" of "f(x.shape())".
std::set<std::string> names_in(const std::string& expression);

/// `expression` with "x_shape" for "x.shape()", for every x of `tensors`. Those of which elements are needed are added
/// to `saved`, those of which only the shape is to `shaped`.
std::string with_shapes_apart(const std::string& expression, const std::set<std::string>& tensors,
                              std::set<std::string>& saved, std::set<std::string>& shaped);

/// Calls mistake() where the rules contradict each other or the arguments.
void check_gradient_rules(const Descriptor& descriptor);

}  // namespace ashlar::dsl
