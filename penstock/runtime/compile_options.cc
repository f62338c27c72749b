#include "penstock/runtime/compile_options.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace penstock::runtime {
namespace {

// Protocol buffers' wire format: https://protobuf.dev/programming-guides/encoding/
std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

std::string IntegerField(int number, int64_t value) {
  return Varint(static_cast<uint64_t>(number) << 3) + Varint(static_cast<uint64_t>(value));
}

std::string BytesField(int number, const std::string& value) {
  return absl::StrCat(Varint(static_cast<uint64_t>(number) << 3 | 2), Varint(value.size()), value);
}

// DeviceAssignmentProto: replica_count, computation_count, computation_devices.replica_device_ids.
std::string DeviceAssignment(absl::Span<const int> device_ids) {
  std::string ids;
  for (int id : device_ids) ids += IntegerField(1, id);
  return IntegerField(1, static_cast<int64_t>(device_ids.size())) + IntegerField(2, 1) +
         BytesField(3, ids);
}

// OptionOverrideProto: string_field 1, bool_field 2. XLA reads numbers and enumerations from a
// string, but of booleans only Python's spelling.
std::string OptionOverride(const std::string& value) {
  if (value == "true" || value == "false") return IntegerField(2, value == "true");
  return BytesField(1, value);
}

}  // namespace

std::string EncodeCompileOptions(int num_replicas, absl::Span<const int> device_ids,
                                 absl::Span<const std::pair<std::string, std::string>> xla_flags) {
  // ExecutableBuildOptionsProto: device_ordinal, num_replicas, num_partitions, device_assignment.
  std::string build = IntegerField(1, -1) + IntegerField(4, num_replicas) + IntegerField(5, 1);
  if (!device_ids.empty()) build += BytesField(9, DeviceAssignment(device_ids));

  std::string options = BytesField(3, build);
  // env_option_overrides: map<string, OptionOverrideProto>.
  for (const auto& [name, value] : xla_flags) {
    options += BytesField(7, BytesField(1, name) + BytesField(2, OptionOverride(value)));
  }
  return options;
}

}  // namespace penstock::runtime
