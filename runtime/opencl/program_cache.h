// OpenCL programs as their driver built them, kept on disk: a driver takes up to a second for each, in every process.
#pragma once

#include <string_view>

#include "runtime/opencl/driver.h"

namespace ashlar::detail::opencl {

/// The program that was once built from `source` by this driver for the context's device, ready for use; null when
/// there is none, or the driver refuses it. Never throws.
cl_program load_program(cl_context context, std::string_view source) noexcept;

/// Keeps a program that was built from `source` for one device. Never throws.
void store_program(cl_program program, std::string_view source) noexcept;

}  // namespace ashlar::detail::opencl
