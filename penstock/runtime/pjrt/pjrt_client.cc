#include "penstock/runtime/pjrt/pjrt_client.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <unistd.h>

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/runtime/compile_options.h"
#include "penstock/runtime/out_of_memory.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/pjrt/pjrt_buffer.h"
#include "penstock/runtime/pjrt/pjrt_device.h"
#include "penstock/runtime/pjrt/pjrt_event.h"
#include "penstock/runtime/pjrt/pjrt_executable.h"
#include "penstock/runtime/pjrt/pjrt_ffi.h"
#include "penstock/runtime/pjrt/pjrt_types.h"
#include "penstock/runtime/pjrt/plugin.h"
#include "penstock/runtime/pjrt/plugin_log.h"
#include "penstock/runtime/pjrt/plugin_message.h"
#include "penstock/runtime/program_check.h"

namespace penstock::runtime {
namespace {

PJRT_NamedValue Option(absl::string_view name, PJRT_NamedValue_Type type) {
  PENSTOCK_PJRT_ARGS(PJRT_NamedValue, value);
  value.name = name.data();
  value.name_size = name.size();
  value.type = type;
  value.value_size = 1;
  return value;
}

PJRT_NamedValue Option(absl::string_view name, int64_t number) {
  PJRT_NamedValue value = Option(name, PJRT_NamedValue_kInt64);
  value.int64_value = number;
  return value;
}

PJRT_NamedValue Option(absl::string_view name, bool flag) {
  PJRT_NamedValue value = Option(name, PJRT_NamedValue_kBool);
  value.bool_value = flag;
  return value;
}

std::vector<PJRT_NamedValue> CreateOptions(const Plugin& plugin, const ClientOptions& options) {
  if (plugin.device == "cpu") {
    return {Option("cpu_device_count", static_cast<int64_t>(options.cpu_devices))};
  }
  if (plugin.device == "gpu") return {Option("preallocate", options.preallocate)};
  return {};
}

// Newer plugins reject unknown options by name; older ones ignore them. A rejected option is
// removed and the rest is tried again.
absl::StatusOr<PJRT_Client*> CreateClient(const PJRT_Api* api,
                                          std::vector<PJRT_NamedValue> options) {
  while (true) {
    PENSTOCK_PJRT_ARGS(PJRT_Client_Create_Args, args);
    args.create_options = options.data();
    args.num_options = options.size();
    const absl::Status status = PENSTOCK_PJRT_CALL(api, PJRT_Client_Create, args);
    if (status.ok()) return args.client;
    const auto refused =
        std::find_if(options.begin(), options.end(), [&](const PJRT_NamedValue& option) {
          return absl::IsInvalidArgument(status) &&
                 absl::StrContains(status.message(),
                                   absl::string_view(option.name, option.name_size));
        });
    if (refused == options.end()) return status;
    options.erase(refused);
  }
}

int64_t HostMemoryBytes() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? pages * page : -1;
}

absl::Status DestroyClient(const PJRT_Api* api, PJRT_Client* client) {
  PENSTOCK_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client;
  return PENSTOCK_PJRT_CALL(api, PJRT_Client_Destroy, args);
}

bool KernelsEnabled() {
  const char* setting = std::getenv("PENSTOCK_KERNELS");
  return setting == nullptr || absl::string_view(setting) != "0";
}

}  // namespace

absl::StatusOr<std::shared_ptr<PjrtClient>> PjrtClient::Create(const Plugin& plugin,
                                                               const ClientOptions& options) {
  absl::StatusOr<PJRT_Client*> handle = [&] {
    const StderrToLog redirected(plugin.log_path);
    return CreateClient(plugin.api, CreateOptions(plugin, options));
  }();
  if (!handle.ok()) {
    return absl::Status(
        handle.status().code(),
        absl::StrCat("no '", plugin.device, "' device could be opened by the plugin ", plugin.path,
                     ": ", handle.status().message(), "\nIts log is ", plugin.log_path, "\n",
                     FoundPlugins()));
  }
  std::shared_ptr<PjrtClient> client(new PjrtClient(plugin.api, *handle));
  client->log_path_ = plugin.log_path;
  client->kernels_ = options.kernels && KernelsEnabled();
  PENSTOCK_RETURN_IF_ERROR(client->ReadDevices());
  PENSTOCK_RETURN_IF_ERROR(CheckPlatform(plugin, client->platform_));
  if (client->devices_.empty()) {
    return absl::NotFoundError(absl::StrCat("the plugin ", plugin.path, " (platform '",
                                            client->platform_, "') found no '", plugin.device,
                                            "' device in this machine\n", FoundPlugins()));
  }
  if (plugin.device == "cpu" &&
      client->devices_.size() != static_cast<size_t>(options.cpu_devices)) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.cpu_devices, " CPU devices were requested, but the plugin ", plugin.path, " made ",
        client->devices_.size(), ": it does not support the option cpu_device_count"));
  }
  client->OpenCache(plugin, options);
  PENSTOCK_ASSIGN_OR_RETURN(client->dump_, ProgramDump::Open(options.dump_hlo));
  return client;
}

void PjrtClient::OpenCache(const Plugin& plugin, const ClientOptions& options) {
  std::vector<std::string> facts{platform_, version_};
  for (const Device& device : devices_) {
    facts.push_back(
        absl::StrCat(device.id, " ", device.process, " ", device.kind, " ", device.description));
  }
  cache_ = std::make_unique<ProgramCache>(
      plugin, std::move(facts),
      CompileCacheOptions{.folder = CompileCacheFolder(options.compile_cache),
                          .max_bytes = options.compile_cache_bytes});
}

PjrtClient::~PjrtClient() {
  if (!InsideCallback()) {
    DestroyClient(api_, client_).IgnoreError();
    return;
  }
  // A callback released the last owner on one of the client's own threads, which destroying the
  // client would join. So a new thread destroys it, the only one that this room starts: there is no
  // pool to use here. If no thread can be started, the client lives until the process ends.
  try {
    std::thread([api = api_, client = client_] {
      DestroyClient(api, client).IgnoreError();
    }).detach();
  } catch (const std::system_error&) {
  }
}

absl::Status PjrtClient::ReadDevices() {
  PENSTOCK_PJRT_ARGS(PJRT_Client_PlatformName_Args, name);
  name.client = client_;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api_, PJRT_Client_PlatformName, name));
  platform_.assign(name.platform_name, name.platform_name_size);
  on_cpu_ = platform_ == "cpu";

  PENSTOCK_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = client_;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api_, PJRT_Client_PlatformVersion, version));
  version_ =
      absl::StrCat(absl::string_view(version.platform_version, version.platform_version_size),
                   " (PJRT API ", ApiVersion(api_), ")");

  PENSTOCK_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, all);
  all.client = client_;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api_, PJRT_Client_AddressableDevices, all));
  for (size_t i = 0; i < all.num_addressable_devices; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(Device device, ReadDevice(all.addressable_devices[i]));
    device.index = static_cast<int>(i);
    devices_.push_back(std::move(device));
    handles_.push_back(all.addressable_devices[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<Device> PjrtClient::ReadDevice(PJRT_Device* handle) const {
  PENSTOCK_PJRT_ARGS(PJRT_Device_GetDescription_Args, get);
  get.device = handle;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api_, PJRT_Device_GetDescription, get));

  PENSTOCK_ASSIGN_OR_RETURN(Device device, ReadDescription(api_, get.device_description));
  // Not every plugin reports it; a CPU device has the machine's memory, shared with the others.
  PENSTOCK_PJRT_ARGS(PJRT_Device_MemoryStats_Args, memory);
  memory.device = handle;
  if (PENSTOCK_PJRT_CALL(api_, PJRT_Device_MemoryStats, memory).ok() && memory.bytes_limit_is_set) {
    device.memory_bytes = memory.bytes_limit;
  } else if (on_cpu_) {
    device.memory_bytes = HostMemoryBytes();
  }
  return device;
}

namespace {

// Overrides of XLA's defaults that cost more than they gain. Flags that the caller sets are not
// overridden.
void AddDefaultFlags(bool on_cpu, std::vector<std::pair<std::string, std::string>>& flags) {
  // Faster, but maximum would not propagate NaN, which is the sign of a diverged training.
  constexpr absl::string_view kFastMinMax = "xla_cpu_enable_fast_min_max";
  const bool named = std::any_of(flags.begin(), flags.end(),
                                 [&](const auto& flag) { return flag.first == kFastMinMax; });
  if (on_cpu && !named) flags.emplace_back(kFastMinMax, "false");
}

}  // namespace

absl::StatusOr<std::shared_ptr<Executable>> PjrtClient::Compile(const ir::Program& program,
                                                                const CompileOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckProgram(program));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<int> chosen,
                            ChooseDevices(program, options, devices_));
  std::vector<const Device*> devices;
  std::vector<int> ids;
  for (int index : chosen) {
    devices.push_back(&devices_[index]);
    ids.push_back(devices_[index].id);
  }
  std::vector<std::pair<std::string, std::string>> flags = options.xla_flags;
  AddDefaultFlags(on_cpu_, flags);
  std::optional<ProgramDump::Files> dump;
  if (dump_ != nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(dump, dump_->WriteText(program));
    for (auto& flag : dump->xla_flags()) flags.push_back(std::move(flag));
  }
  const std::string encoded = EncodeCompileOptions(program.num_replicas, ids, flags);
  const auto make = [&](PJRT_LoadedExecutable* handle, bool from_cache) {
    return std::make_shared<PjrtExecutable>(shared_from_this(), handle, program, devices,
                                            from_cache);
  };
  const auto check = [&](const PjrtExecutable& executable) {
    PENSTOCK_RETURN_IF_ERROR(executable.CheckResults());
    return options.allow_copied_donations ? absl::OkStatus() : executable.CheckDonation();
  };

  const std::string key = cache_->Key(program, encoded);
  if (PJRT_LoadedExecutable* handle = cache_->Load(client_, key); handle != nullptr) {
    std::shared_ptr<PjrtExecutable> kept = make(handle, /*from_cache=*/true);
    if (check(*kept).ok()) {
      kept->RecordTemporaries();
      return kept;
    }
    cache_->Remove(key);
  }
  const absl::StatusOr<PJRT_LoadedExecutable*> handle = CompileText(program, encoded);
  const absl::Status dumped = dump.has_value() ? dump->CollectOptimized() : absl::OkStatus();
  PENSTOCK_RETURN_IF_ERROR(handle.status());
  std::shared_ptr<PjrtExecutable> executable = make(*handle, /*from_cache=*/false);
  PENSTOCK_RETURN_IF_ERROR(dumped);
  PENSTOCK_RETURN_IF_ERROR(check(*executable));
  executable->RecordTemporaries();
  cache_->Store(key, *handle);
  return executable;
}

absl::StatusOr<PJRT_LoadedExecutable*> PjrtClient::CompileText(
    const ir::Program& program, const std::string& encoded_options) const {
  PJRT_Program code = ProgramText(program);
  PENSTOCK_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = client_;
  args.program = &code;
  args.compile_options = encoded_options.data();
  args.compile_options_size = encoded_options.size();
  const absl::Status status = PENSTOCK_PJRT_CALL(api_, PJRT_Client_Compile, args);
  PENSTOCK_RETURN_IF_ERROR(ExplainOutOfMemory(ExplainCompileError(status, program), program));
  return args.executable;
}

absl::StatusOr<Buffer> PjrtClient::Put(const Array& array, const Device& device) {
  if (!array.valid()) return absl::InvalidArgumentError("Put was given an empty Array");
  PENSTOCK_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, PjrtType(array.dtype()));
  PENSTOCK_RETURN_IF_ERROR(CheckDevice(device, devices_));
  // Memory without an owner must be read before this returns.
  const bool owned = array.owner() != nullptr;
  const bool in_place =
      on_cpu_ && owned && reinterpret_cast<uintptr_t>(array.raw()) % base::kArrayAlignment == 0;

  PENSTOCK_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = client_;
  args.data = array.raw();
  args.type = type;
  args.dims = array.shape().dims().data();
  args.num_dims = array.shape().dims().size();
  // ZeroCopy and not MutableZeroCopy: a donation must never write into the user's array.
  args.host_buffer_semantics = in_place ? PJRT_HostBufferSemantics_kImmutableZeroCopy
                               : owned  ? PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes
                                        : PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = handles_[device.index];
  PENSTOCK_RETURN_IF_ERROR(
      base::WithContext(PENSTOCK_PJRT_CALL(api_, PJRT_Client_BufferFromHostBuffer, args),
                        absl::StrCat("Put of ", array.TypeString(), " on ", device.description)));
  // The array's memory stays alive until the plugin reports that it is done with it.
  if (owned) {
    CallWhenReady(api_, args.done_with_host_buffer, [array](const absl::Status&) {});
  }
  DestroyEvent(api_, args.done_with_host_buffer);
  const MemoryOwner owner = in_place  ? MemoryOwner::kArray
                            : on_cpu_ ? MemoryOwner::kHostDevice
                                      : MemoryOwner::kDevice;
  return Buffer(std::make_shared<PjrtBuffer>(shared_from_this(), args.buffer,
                                             TensorType{array.dtype(), array.shape()},
                                             &devices_[device.index], owner, nullptr));
}

FreeMemoryInfo PjrtClient::FreeMemory(const Device& device) {
  if (on_cpu_) {
    const base::MemoryHeadroom room = base::AvailableMemory();
    return {.bytes = room.bytes, .where = room.limited_by, .shared = true};
  }
  PENSTOCK_PJRT_ARGS(PJRT_Device_MemoryStats_Args, memory);
  memory.device = handles_[device.index];
  const bool known = PENSTOCK_PJRT_CALL(api_, PJRT_Device_MemoryStats, memory).ok();
  if (!known || !memory.bytes_limit_is_set) return {};
  return {.bytes = memory.bytes_limit - memory.bytes_in_use, .where = device.description};
}

absl::Status PjrtClient::AddKernels(absl::Span<const Kernel> kernels) {
  if (!on_cpu_) return Client::AddKernels(kernels);
  if (!kernels_) {
    return absl::FailedPreconditionError(
        "they are disabled (ClientOptions::kernels, PENSTOCK_KERNELS)");
  }
  return RegisterKernels(api_, kernels);
}

void PjrtClient::Log(absl::string_view line) { WriteToLog(log_path_, line); }

}  // namespace penstock::runtime
