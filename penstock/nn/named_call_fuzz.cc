// Parses arbitrary text: the result is an error, or a call whose arguments can be read.
#include <cstdint>

#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/named_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::nn;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto call = ParseNamedCall(text); call.ok()) {
    double number = 0;
    std::string word;
    std::vector<int64_t> axes;
    CallArguments (*call)("number", number)("word", word)("axes", axes).Finish().IgnoreError();
  }
  const auto json = nlohmann::ordered_json::parse(text.begin(), text.end(), nullptr, false);
  if (const auto written = NamedCallFromJson(json); written.ok()) {
    ParseNamedCall(*written).status().IgnoreError();
  }
  return 0;
}
