#include "penstock/runtime/pjrt/pjrt_device.h"

#include "penstock/base/status.h"
#include "penstock/runtime/pjrt/pjrt_api.h"

namespace penstock::runtime {

absl::StatusOr<Device> ReadDescription(const PJRT_Api* api, PJRT_DeviceDescription* description) {
  Device device;
  PENSTOCK_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = description;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_DeviceDescription_Id, id));
  device.id = id.id;

  PENSTOCK_PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, kind);
  kind.device_description = description;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_DeviceDescription_Kind, kind));
  device.kind.assign(kind.device_kind, kind.device_kind_size);

  PENSTOCK_PJRT_ARGS(PJRT_DeviceDescription_ToString_Args, text);
  text.device_description = description;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_DeviceDescription_ToString, text));
  device.description.assign(text.to_string, text.to_string_size);

  PENSTOCK_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process);
  process.device_description = description;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_DeviceDescription_ProcessIndex, process));
  device.process = process.process_index;

  PENSTOCK_PJRT_ARGS(PJRT_DeviceDescription_Attributes_Args, all);
  all.device_description = description;
  const bool has_attributes = PENSTOCK_PJRT_CALL(api, PJRT_DeviceDescription_Attributes, all).ok();
  for (size_t i = 0; has_attributes && i < all.num_attributes; ++i) {
    const PJRT_NamedValue& attribute = all.attributes[i];
    if (absl::string_view(attribute.name, attribute.name_size) == "device_memory_bytes_limit" &&
        attribute.type == PJRT_NamedValue_kInt64) {
      device.memory_bytes = attribute.int64_value;
    }
  }
  return device;
}

}  // namespace penstock::runtime
