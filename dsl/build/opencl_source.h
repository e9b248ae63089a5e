// What the OpenCL back end of Halide 21 writes, made fit for compilers of OpenCL C.
#pragma once

#include <string>

namespace ashlar::dsl {

/// The same program with
/// - calls of opencl_function() (dsl/element.h) going to functions of their vectors' width, which are defined in front:
///   conversions of half by OpenCL C's own, which are core where arithmetic on half is an extension;
/// - a memory fence in each barrier (Halide leaves it out where nothing was stored since the last one, but what was
///   loaded must be finished as well);
/// - no indentation and no comments.
/// Throws std::runtime_error for a call of a function that isn't known here.
std::string rewrite_opencl(const std::string& source);

}  // namespace ashlar::dsl
