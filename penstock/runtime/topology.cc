#include "penstock/runtime/topology.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/runtime/compile_options.h"
#include "penstock/runtime/out_of_memory.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/pjrt/pjrt_device.h"
#include "penstock/runtime/pjrt/pjrt_estimate.h"
#include "penstock/runtime/pjrt/pjrt_types.h"
#include "penstock/runtime/pjrt/plugin.h"
#include "penstock/runtime/pjrt/plugin_log.h"
#include "penstock/runtime/pjrt/plugin_message.h"
#include "penstock/runtime/program_check.h"

namespace penstock::runtime {
namespace {

// Environment variables that libtpu reads when it is loaded, unless the user set them: not to query
// the metadata server for this machine's TPU, and not to claim that TPU for this process.
void LeaveTheTpuAlone() {
  static const bool prepared = [] {
    ::setenv("TPU_SKIP_MDS_QUERY", "1", /*overwrite=*/0);
    ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", /*overwrite=*/0);
    return true;
  }();
  static_cast<void>(prepared);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Topology>> Topology::Open(const TopologyOptions& options) {
  if (options.name.empty()) {
    return absl::InvalidArgumentError("a topology requires a name, such as v2:2x2x1");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string path,
                            FindPlugin(options.device, options.plugin_path));
  if (options.device == "tpu") LeaveTheTpuAlone();
  PENSTOCK_ASSIGN_OR_RETURN(const Plugin plugin,
                            LoadPlugin(options.device, path, LogPath(options.log_path)));
  PENSTOCK_PJRT_ARGS(PJRT_TopologyDescription_Create_Args, args);
  args.topology_name = options.name.data();
  args.topology_name_size = options.name.size();
  const absl::Status status = [&] {
    const StderrToLog redirected(plugin.log_path);
    return PENSTOCK_PJRT_CALL(plugin.api, PJRT_TopologyDescription_Create, args);
  }();
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(
      status, absl::StrCat("topology '", options.name, "' of the plugin ", plugin.path)));
  std::unique_ptr<Topology> topology(new Topology(options.name, plugin.api, args.topology));
  PENSTOCK_RETURN_IF_ERROR(topology->ReadFacts());
  PENSTOCK_RETURN_IF_ERROR(CheckPlatform(plugin, topology->platform_));
  return topology;
}

Topology::~Topology() {
  PENSTOCK_PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, args);
  args.topology = handle_;
  PENSTOCK_PJRT_CALL(api_, PJRT_TopologyDescription_Destroy, args).IgnoreError();
}

absl::Status Topology::ReadFacts() {
  PENSTOCK_PJRT_ARGS(PJRT_TopologyDescription_PlatformName_Args, name);
  name.topology = handle_;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api_, PJRT_TopologyDescription_PlatformName, name));
  platform_.assign(name.platform_name, name.platform_name_size);

  PENSTOCK_PJRT_ARGS(PJRT_TopologyDescription_PlatformVersion_Args, version);
  version.topology = handle_;
  PENSTOCK_RETURN_IF_ERROR(
      PENSTOCK_PJRT_CALL(api_, PJRT_TopologyDescription_PlatformVersion, version));
  version_ =
      absl::StrCat(absl::string_view(version.platform_version, version.platform_version_size),
                   " (PJRT API ", ApiVersion(api_), ")");

  PENSTOCK_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, all);
  all.topology = handle_;
  PENSTOCK_RETURN_IF_ERROR(
      PENSTOCK_PJRT_CALL(api_, PJRT_TopologyDescription_GetDeviceDescriptions, all));
  for (size_t i = 0; i < all.num_descriptions; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(Device device, ReadDescription(api_, all.descriptions[i]));
    device.index = static_cast<int>(i);
    devices_.push_back(std::move(device));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramEstimate> Topology::Compile(const ir::Program& program,
                                                  const CompileOptions& options) const {
  PENSTOCK_RETURN_IF_ERROR(CheckProgram(program));
  if (!options.devices.empty()) {
    return absl::InvalidArgumentError(
        "CompileOptions::devices is for attached devices; a topology's plugin chooses");
  }
  if (program.num_replicas > static_cast<int>(devices_.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        ProgramName(program), " has ", program.num_replicas, " replicas, but the topology '", name_,
        "' has ", devices_.size(), " devices"));
  }
  const std::string encoded = EncodeCompileOptions(program.num_replicas, {}, options.xla_flags);
  PJRT_Program code = ProgramText(program);
  PENSTOCK_PJRT_ARGS(PJRT_Compile_Args, args);
  args.topology = handle_;
  args.program = &code;
  args.compile_options = encoded.data();
  args.compile_options_size = encoded.size();
  const absl::Status status = PENSTOCK_PJRT_CALL(api_, PJRT_Compile, args);
  PENSTOCK_RETURN_IF_ERROR(ExplainOutOfMemory(ExplainCompileError(status, program), program));

  const auto memory = ReadMemory(api_, args.executable);
  const auto cost = ReadCost(api_, args.executable);
  DestroyExecutable(api_, args.executable);
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(memory.status(), ProgramName(program)));
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(cost.status(), ProgramName(program)));
  if (!options.allow_copied_donations) {
    PENSTOCK_RETURN_IF_ERROR(CheckAliased(program, *memory));
  }
  return ProgramEstimate{.memory = *memory, .cost = *cost};
}

}  // namespace penstock::runtime
