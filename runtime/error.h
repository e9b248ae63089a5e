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

struct ShapeError : Error {
  using Error::Error;
};  ///< sizes or ranks that don't fit
struct DTypeError : Error {
  using Error::Error;
};  ///< element types that don't fit
struct DeviceError : Error {
  using Error::Error;
};  ///< mixed devices, or a device that isn't there
struct IndexError : Error {
  using Error::Error;
};  ///< an axis or index out of range
struct ValueError : Error {
  using Error::Error;
};  ///< any other argument out of its domain
struct OutOfMemory : Error {
  using Error::Error;
};  ///< after trimming the pool and trying again
struct MissingKernel : Error {
  using Error::Error;
};  ///< no compiled instance for dtype and target
struct DriverError : Error {
  using Error::Error;
};  ///< a CUDA or OpenCL call failed
struct KernelError : Error {
  using Error::Error;
};  ///< a compiled kernel refused its arguments
struct AutogradError : Error {
  using Error::Error;
};  ///< misuse of the tape
struct DataError : Error {
  using Error::Error;
};  ///< a file that can't be read as what it claims

}  // namespace ashlar
