#include "penstock/runtime/pjrt/pjrt_ffi.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/runtime/pjrt/pjrt_api.h"

namespace penstock::runtime {
namespace {

// The extension's layout, as in xla/pjrt/c/pjrt_c_api_ffi_extension.h, version 1 and later. The
// plugin's wheel carries no header for it.
struct RegisterHandlerArgs {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  uint32_t traits;
};
constexpr size_t kRegisterHandlerArgsSize =
    offsetof(RegisterHandlerArgs, traits) + sizeof(RegisterHandlerArgs::traits);

struct FfiExtension {
  PJRT_Extension_Base base;
  void* type_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(RegisterHandlerArgs* args);
};

const FfiExtension* FindExtension(const PJRT_Api* api) {
  for (const PJRT_Extension_Base* e = api->extension_start; e != nullptr; e = e->next) {
    if (e->type != PJRT_Extension_Type_FFI) continue;
    return e->struct_size < sizeof(FfiExtension) ? nullptr
                                                 : reinterpret_cast<const FfiExtension*>(e);
  }
  return nullptr;
}

// The plugin's registry is process-wide and accepts a name once, so registered kernels are
// remembered for the process.
struct Registered {
  std::mutex mutex;
  std::map<std::pair<const PJRT_Api*, std::string>, void*> handlers;
};

Registered& TheRegistered() {
  static auto& registered = *new Registered;
  return registered;
}

absl::Status Register(const PJRT_Api* api, const FfiExtension& extension, const Kernel& kernel) {
  constexpr absl::string_view kPlatform = "Host";
  RegisterHandlerArgs args{};
  args.struct_size = kRegisterHandlerArgsSize;
  args.target_name = kernel.name.data();
  args.target_name_size = kernel.name.size();
  args.handler = kernel.handler;
  args.platform_name = kPlatform.data();
  args.platform_name_size = kPlatform.size();
  return TakeError(api, extension.register_handler(&args));
}

}  // namespace

absl::Status RegisterKernels(const PJRT_Api* api, absl::Span<const Kernel> kernels) {
  const FfiExtension* extension = FindExtension(api);
  if (extension == nullptr || extension->register_handler == nullptr) {
    return absl::UnimplementedError(absl::StrCat("the plugin (PJRT API ", ApiVersion(api),
                                                 ") has no extension for custom calls"));
  }
  Registered& registered = TheRegistered();
  const std::lock_guard<std::mutex> lock(registered.mutex);
  for (const Kernel& kernel : kernels) {
    const auto key = std::make_pair(api, kernel.name);
    const auto known = registered.handlers.find(key);
    if (known != registered.handlers.end()) {
      if (known->second == kernel.handler) continue;
      return absl::AlreadyExistsError(
          absl::StrCat("another kernel is registered as '", kernel.name, "'"));
    }
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(Register(api, *extension, kernel), kernel.name));
    registered.handlers[key] = kernel.handler;
  }
  return absl::OkStatus();
}

}  // namespace penstock::runtime
