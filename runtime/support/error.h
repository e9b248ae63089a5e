// Every exception the library throws. A message reads
//   <operation>: got <what came>; needed <what was needed>. <Remedy>.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ashlar {

/// Base of all exceptions thrown by Ashlar.
class Error : public std::runtime_error {
 public:
  Error(std::string_view operation, std::string_view came, std::string_view needed, std::string_view remedy);
  const std::string& operation() const { return operation_; }

 private:
  std::string operation_;
};

/// Sizes or ranks that don't fit.
struct ShapeError : Error {
  using Error::Error;
};
/// Element types that don't fit.
struct DTypeError : Error {
  using Error::Error;
};
/// Mixed devices, or a device that isn't there.
struct DeviceError : Error {
  using Error::Error;
};
/// An axis or index out of range.
struct IndexError : Error {
  using Error::Error;
};
/// Any other argument out of its domain.
struct ValueError : Error {
  using Error::Error;
};
/// After trimming the pool and trying again.
struct OutOfMemory : Error {
  using Error::Error;
};
/// No compiled instance for dtype and target.
struct MissingKernel : Error {
  using Error::Error;
};
/// A CUDA or OpenCL call failed.
struct DriverError : Error {
  using Error::Error;
};
/// A compiled kernel refused its arguments.
struct KernelError : Error {
  using Error::Error;
};
/// Work that can't be captured into a graph, or a graph used wrongly.
struct GraphError : Error {
  using Error::Error;
};
/// Misuse of the tape.
struct AutogradError : Error {
  using Error::Error;
};
/// A file that can't be read as what it claims.
struct DataError : Error {
  using Error::Error;
};

}  // namespace ashlar
