// Fuzz target: text from the network as a snapshot.

#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/monitor/prometheus.h"
#include "penstock/monitor/snapshot.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using penstock::monitor::Snapshot;
  const auto read = Snapshot::FromJson({reinterpret_cast<const char*>(data), size});
  if (!read.ok()) return 0;
  // What was read can be shown and read again.
  penstock::monitor::PrometheusText(*read);
  PENSTOCK_CHECK_OK(Snapshot::FromJson(read->ToJson()));
  return 0;
}
