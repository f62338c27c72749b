// Parses arbitrary JSON: the result is an error, or a network (or optimizer, schedule, loss,
// metric) that survives a round trip.
#include <cstdint>

#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/json_depth.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/network.h"
#include "penstock/nn/optimizers.h"

namespace {

template <typename T>
void ReadAndWrite(const nlohmann::ordered_json& json) {
  const auto read = T::FromJson(json);
  if (!read.ok()) return;
  const nlohmann::ordered_json written = read->ToJson();
  const auto again = T::FromJson(written);
  PENSTOCK_CHECK_OK(again.status());
  PENSTOCK_CHECK(again->ToJson().dump() == written.dump());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::nn;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = ParseModelJson(text);
  if (!json.ok()) return 0;
  ReadAndWrite<Network>(*json);
  ReadAndWrite<Optimizer>(*json);
  ReadAndWrite<Schedule>(*json);
  ReadAndWrite<Loss>(*json);
  ReadAndWrite<Metric>(*json);
  return 0;
}
