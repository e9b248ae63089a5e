// Devices and streams.
#include <vector>

#include "c/handles.h"
#include "runtime/support/error.h"

using namespace ashlar;

namespace {

/// Their names, asked for once.
const std::vector<std::string>& device_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Device device : Device::available()) all.push_back(device.str());
    return all;
  }();
  return names;
}

}  // namespace

namespace ashlar::c {

void check_given(const char* operation, const char* name, const void* pointer) {
  if (pointer != nullptr) return;
  throw ValueError(operation, std::string(name) + " = NULL", "a pointer", std::string("Give ") + name);
}

Device parse_device(const char* operation, const char* name) {
  check_given(operation, "device", name);
  return Device::parse(name);
}

}  // namespace ashlar::c

const char* ashlar_version() { return ASHLAR_VERSION; }

size_t ashlar_device_count() {
  size_t count = 0;
  c::guarded([&] { count = device_names().size(); });
  return count;
}

const char* ashlar_device_name(size_t index) {
  const char* name = nullptr;
  c::guarded([&] { name = index < device_names().size() ? device_names()[index].c_str() : nullptr; });
  return name;
}

AshlarStatus ashlar_stream_create(const char* device, AshlarStream** stream) {
  return c::guarded([&] {
    c::check_given("ashlar_stream_create", "stream", stream);
    *stream = new AshlarStream{Stream(c::parse_device("ashlar_stream_create", device))};
  });
}

AshlarStatus ashlar_stream_from_cuda(void* cuda_stream, const char* device, AshlarStream** stream) {
  return c::guarded([&] {
    c::check_given("ashlar_stream_from_cuda", "stream", stream);
    *stream = new AshlarStream{Stream::wrap(cuda_stream, c::parse_device("ashlar_stream_from_cuda", device))};
  });
}

AshlarStatus ashlar_stream_current(const char* device, AshlarStream** stream) {
  return c::guarded([&] {
    c::check_given("ashlar_stream_current", "stream", stream);
    *stream = new AshlarStream{Stream::current(c::parse_device("ashlar_stream_current", device))};
  });
}

AshlarStatus ashlar_stream_make_current(const AshlarStream* stream) {
  return c::guarded([&] {
    c::check_given("ashlar_stream_make_current", "stream", stream);
    stream->stream.make_current();
  });
}

AshlarStatus ashlar_stream_wait(const AshlarStream* stream, const AshlarStream* other) {
  return c::guarded([&] {
    c::check_given("ashlar_stream_wait", "stream", stream);
    c::check_given("ashlar_stream_wait", "other", other);
    stream->stream.wait(other->stream);
  });
}

AshlarStatus ashlar_stream_synchronize(const AshlarStream* stream) {
  return c::guarded([&] {
    c::check_given("ashlar_stream_synchronize", "stream", stream);
    stream->stream.synchronize();
  });
}

void ashlar_stream_free(AshlarStream* stream) { delete stream; }
