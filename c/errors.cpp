#include <new>

#include "c/handles.h"
#include "runtime/support/error.h"

namespace {

thread_local std::string last_error;

}  // namespace

const char* ashlar_last_error() { return last_error.c_str(); }

namespace ashlar::c {
namespace {

AshlarStatus note(AshlarStatus status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

}  // namespace

AshlarStatus failure() noexcept {
  try {
    throw;
  } catch (const ShapeError& error) {
    return note(ASHLAR_SHAPE_ERROR, error.what());
  } catch (const DTypeError& error) {
    return note(ASHLAR_DTYPE_ERROR, error.what());
  } catch (const DeviceError& error) {
    return note(ASHLAR_DEVICE_ERROR, error.what());
  } catch (const IndexError& error) {
    return note(ASHLAR_INDEX_ERROR, error.what());
  } catch (const ValueError& error) {
    return note(ASHLAR_VALUE_ERROR, error.what());
  } catch (const OutOfMemory& error) {
    return note(ASHLAR_OUT_OF_MEMORY, error.what());
  } catch (const MissingKernel& error) {
    return note(ASHLAR_MISSING_KERNEL, error.what());
  } catch (const DriverError& error) {
    return note(ASHLAR_DRIVER_ERROR, error.what());
  } catch (const KernelError& error) {
    return note(ASHLAR_KERNEL_ERROR, error.what());
  } catch (const GraphError& error) {
    return note(ASHLAR_GRAPH_ERROR, error.what());
  } catch (const AutogradError& error) {
    return note(ASHLAR_AUTOGRAD_ERROR, error.what());
  } catch (const DataError& error) {
    return note(ASHLAR_DATA_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return note(ASHLAR_OUT_OF_MEMORY, "the host's memory is used up");
  } catch (const std::exception& error) {
    return note(ASHLAR_OTHER_ERROR, error.what());
  } catch (...) {
    return note(ASHLAR_OTHER_ERROR, "an exception of unknown type");
  }
}

}  // namespace ashlar::c
