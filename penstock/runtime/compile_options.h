// Encoder of xla.CompileOptionsProto, written by hand: five fields do not justify a dependency on
// protobuf. Source: xla/pjrt/proto/compile_options.proto, xla/xla_data.proto
// (DeviceAssignmentProto).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace penstock::runtime {

// Encodes compile options. `device_ids`: the platform's device id for each replica; empty leaves
// the choice to the plugin. Replicas and partitions are always written: the proto's zero makes the
// CPU plugins abort.
std::string EncodeCompileOptions(int num_replicas, absl::Span<const int> device_ids,
                                 absl::Span<const std::pair<std::string, std::string>> xla_flags);

}  // namespace penstock::runtime
