#include "runtime/device/counters.h"

#include "runtime/device/counter_cells.h"

namespace ashlar {
namespace detail {

CounterCells& counter_cells(DeviceKind kind) noexcept {
  static constinit CounterCells cells[kDeviceKinds];
  return cells[static_cast<int>(kind)];
}

}  // namespace detail

Counters operator-(const Counters& a, const Counters& b) {
  Counters d;
  d.launches = a.launches - b.launches;
  d.bytes_to_device = a.bytes_to_device - b.bytes_to_device;
  d.bytes_to_host = a.bytes_to_host - b.bytes_to_host;
  d.bytes_on_device = a.bytes_on_device - b.bytes_on_device;
  d.allocations = a.allocations - b.allocations;
  d.pool_hits = a.pool_hits - b.pool_hits;
  d.pool_bytes = a.pool_bytes - b.pool_bytes;
  d.live_bytes = a.live_bytes - b.live_bytes;
  d.modules_loaded = a.modules_loaded - b.modules_loaded;
  d.cache_hits = a.cache_hits - b.cache_hits;
  d.cpu_fallbacks = a.cpu_fallbacks - b.cpu_fallbacks;
  return d;
}

Counters counters(DeviceKind kind) {
  const detail::CounterCells& cells = detail::counter_cells(kind);
  Counters c;
  c.launches = cells.launches;
  c.bytes_to_device = cells.bytes_to_device;
  c.bytes_to_host = cells.bytes_to_host;
  c.bytes_on_device = cells.bytes_on_device;
  c.allocations = cells.allocations;
  c.pool_hits = cells.pool_hits;
  c.pool_bytes = cells.pool_bytes;
  c.live_bytes = cells.live_bytes;
  c.modules_loaded = cells.modules_loaded;
  c.cache_hits = cells.cache_hits;
  c.cpu_fallbacks = cells.cpu_fallbacks;
  return c;
}

}  // namespace ashlar
