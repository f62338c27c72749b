#include "penstock/runtime/pjrt/pjrt_api.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace penstock::runtime {

absl::Status TakeError(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  PENSTOCK_PJRT_ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  PENSTOCK_PJRT_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  PJRT_Error* second = api->PJRT_Error_GetCode(&code);
  // PJRT's codes are abseil's.
  const auto status_code =
      second == nullptr ? static_cast<absl::StatusCode>(code.code) : absl::StatusCode::kUnknown;
  absl::Status status(status_code, absl::string_view(message.message, message.message_size));
  for (PJRT_Error* e : {error, second}) {
    if (e == nullptr) continue;
    PENSTOCK_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
    destroy.error = e;
    api->PJRT_Error_Destroy(&destroy);
  }
  return status;
}

std::string ApiVersion(const PJRT_Api* api) {
  return absl::StrCat(api->pjrt_api_version.major_version, ".",
                      api->pjrt_api_version.minor_version);
}

absl::Status MissingFunction(const PJRT_Api* api, absl::string_view name) {
  return absl::UnimplementedError(
      absl::StrCat("the plugin (PJRT API ", ApiVersion(api), ") has no ", name));
}

}  // namespace penstock::runtime
