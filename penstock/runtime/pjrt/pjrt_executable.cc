#include "penstock/runtime/pjrt/pjrt_executable.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/runtime/large_blocks.h"
#include "penstock/runtime/out_of_memory.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/pjrt/pjrt_buffer.h"
#include "penstock/runtime/pjrt/pjrt_client.h"
#include "penstock/runtime/pjrt/pjrt_estimate.h"
#include "penstock/runtime/pjrt/pjrt_types.h"
#include "penstock/runtime/program_check.h"

namespace penstock::runtime {
namespace {

// CheckOwner has verified the type.
PjrtBuffer& AsPjrt(const Buffer& buffer) { return static_cast<PjrtBuffer&>(*buffer.impl()); }

}  // namespace

PjrtExecutable::PjrtExecutable(std::shared_ptr<PjrtClient> client, PJRT_LoadedExecutable* handle,
                               ir::Program program, std::vector<const Device*> devices,
                               bool from_cache)
    : client_(std::move(client)),
      handle_(handle),
      program_(std::make_shared<const ir::Program>(std::move(program))),
      devices_(std::move(devices)),
      from_cache_(from_cache),
      uses_(*program_) {}

PjrtExecutable::~PjrtExecutable() {
  PENSTOCK_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = handle_;
  PENSTOCK_PJRT_CALL(client_->api(), PJRT_LoadedExecutable_Destroy, args).IgnoreError();
}

absl::Status PjrtExecutable::CheckOwner(absl::Span<const Buffers> arguments) const {
  for (size_t replica = 0; replica < arguments.size(); ++replica) {
    for (size_t i = 0; i < arguments[replica].size(); ++i) {
      const BufferImpl& buffer = *arguments[replica][i].impl();
      if (typeid(buffer) != typeid(PjrtBuffer) ||
          static_cast<const PjrtBuffer&>(buffer).client() != client_.get()) {
        return absl::InvalidArgumentError(absl::StrCat(
            ParameterName(*program_, replica, i),
            ": the buffer belongs to another client; transfer it with Get there and Put here"));
      }
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> PjrtExecutable::Viewed(absl::Span<const Buffers> arguments) const {
  std::vector<int64_t> out;
  for (size_t i : uses_.donated) {
    const bool viewed = std::any_of(arguments.begin(), arguments.end(),
                                    [&](const Buffers& b) { return AsPjrt(b[i]).HasViews(); });
    if (viewed) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}

absl::StatusOr<std::vector<Buffers>> PjrtExecutable::Execute(absl::Span<const Buffers> arguments) {
  PENSTOCK_RETURN_IF_ERROR(CheckArguments(*program_, devices_, arguments));
  PENSTOCK_RETURN_IF_ERROR(CheckOwner(arguments));
  DonationClaims<PjrtBuffer> claims;
  PENSTOCK_RETURN_IF_ERROR(claims.Claim(*program_, uses_, arguments));

  AwaitTemporaries(arguments);

  const size_t replicas = devices_.size();
  const size_t parameters = program_->parameters.size(), results = program_->results.size();
  std::vector<PJRT_Buffer*> in, out(replicas * results);
  in.reserve(replicas * parameters);
  for (const Buffers& replica : arguments) {
    for (const Buffer& buffer : replica) in.push_back(AsPjrt(buffer).handle());
  }
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t replica = 0; replica < replicas; ++replica) {
    argument_lists.push_back(in.data() + replica * parameters);
    output_lists.push_back(out.data() + replica * results);
  }

  const std::vector<int64_t> viewed = Viewed(arguments);
  PENSTOCK_PJRT_ARGS(PJRT_ExecuteOptions, options);
  options.non_donatable_input_indices = viewed.data();
  options.num_non_donatable_input_indices = viewed.size();
  PENSTOCK_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = handle_;
  args.options = &options;
  args.argument_lists = argument_lists.data();
  args.num_devices = replicas;
  args.num_args = parameters;
  args.output_lists = output_lists.data();
  const absl::Status status =
      PENSTOCK_PJRT_CALL(client_->api(), PJRT_LoadedExecutable_Execute, args);
  claims.Keep();
  if (status.ok()) return Wrap(out);
  for (PjrtBuffer* buffer : claims.buffers()) buffer->ReconcileClaim();
  return base::WithContext(ExplainOutOfMemory(status, *program_), ProgramName(*program_));
}

void PjrtExecutable::RecordTemporaries() {
  // Only some of several replicas are that slow, and waiting for the slowest costs more.
  if (!client_->on_cpu() || uses_.donated.empty() || devices_.size() > 1) return;
  const absl::StatusOr<MemoryStats> memory = Memory();
  if (memory.ok() && memory->temporary > 0) host_temporaries_ = memory->temporary;
}

// A CPU execution frees its temporaries a moment after its results are available. If this execution
// donates those results, they are ready and the moment is worth waiting for: otherwise the process
// has the temporaries twice, in new pages from the system.
void PjrtExecutable::AwaitTemporaries(absl::Span<const Buffers> arguments) {
  LargeBlocks* const blocks = LargeBlocks::ForProcess();
  if (host_temporaries_ == 0 || blocks == nullptr || futile_waits_ >= kMaxFutileWaits) return;
  if (!AsPjrt(arguments[0][uses_.donated[0]]).IsReady()) return;
  futile_waits_ = blocks->AwaitFreed(host_temporaries_) ? 0 : futile_waits_ + 1;
}

std::vector<Buffers> PjrtExecutable::Wrap(absl::Span<PJRT_Buffer* const> handles) {
  const size_t results = program_->results.size();
  const MemoryOwner owner = client_->on_cpu() ? MemoryOwner::kHostDevice : MemoryOwner::kDevice;
  std::vector<Buffers> out(devices_.size());
  for (size_t replica = 0; replica < devices_.size(); ++replica) {
    out[replica].reserve(results);
    for (size_t i = 0; i < results; ++i) {
      out[replica].emplace_back(
          std::make_shared<PjrtBuffer>(client_, handles[replica * results + i],
                                       program_->results[i], devices_[replica], owner, program_));
    }
  }
  return out;
}

absl::StatusOr<PJRT_Executable*> PjrtExecutable::Unloaded() const {
  PENSTOCK_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
  args.loaded_executable = handle_;
  PENSTOCK_RETURN_IF_ERROR(
      PENSTOCK_PJRT_CALL(client_->api(), PJRT_LoadedExecutable_GetExecutable, args));
  return args.executable;
}

namespace {

// Compares the shapes and types of the results with those that the program lists, which Get uses to
// copy them: a program may come from a file. OK if the plugin does not report them.
absl::Status CheckResultTypes(const PJRT_Api* api, PJRT_Executable* executable,
                              const ir::Program& program) {
  PENSTOCK_PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, types);
  PENSTOCK_PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, dims);
  types.executable = executable;
  dims.executable = executable;
  if (api->PJRT_Executable_OutputElementTypes == nullptr ||
      api->PJRT_Executable_OutputDimensions == nullptr ||
      !PENSTOCK_PJRT_CALL(api, PJRT_Executable_OutputElementTypes, types).ok() ||
      !PENSTOCK_PJRT_CALL(api, PJRT_Executable_OutputDimensions, dims).ok() ||
      types.num_output_types != program.results.size() ||
      dims.num_outputs != program.results.size()) {
    return absl::OkStatus();
  }
  const int64_t* at = dims.dims;
  for (size_t i = 0; i < program.results.size(); ++i) {
    const absl::Span<const int64_t> shape(at, dims.dim_sizes[i]);
    at += dims.dim_sizes[i];
    PENSTOCK_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, PjrtType(program.results[i].dtype));
    if (shape == program.results[i].shape.dims() && type == types.output_types[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        ProgramName(program), ": result ", i, " is listed as ", program.results[i].ToString(),
        ", but its text returns another type, of shape [", absl::StrJoin(shape, ","), "]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PjrtExecutable::CheckResults() const {
  const PJRT_Api* api = client_->api();
  PENSTOCK_ASSIGN_OR_RETURN(PJRT_Executable * executable, Unloaded());
  PENSTOCK_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, args);
  args.executable = executable;
  absl::Status status = PENSTOCK_PJRT_CALL(api, PJRT_Executable_NumOutputs, args);
  if (status.ok() && args.num_outputs != program_->results.size()) {
    status = absl::InvalidArgumentError(absl::StrCat(ProgramName(*program_), ": its text returns ",
                                                     args.num_outputs, " results, but it lists ",
                                                     program_->results.size()));
  }
  if (status.ok()) status = CheckResultTypes(api, executable, *program_);
  DestroyExecutable(api, executable);
  return status;
}

absl::Status PjrtExecutable::CheckDonation() const {
  if (uses_.donated.empty()) return absl::OkStatus();
  const absl::StatusOr<MemoryStats> memory = Memory();
  if (absl::IsUnimplemented(memory.status())) return absl::OkStatus();  // nothing to check against
  PENSTOCK_RETURN_IF_ERROR(memory.status());
  return CheckAliased(*program_, *memory);
}

absl::StatusOr<MemoryStats> PjrtExecutable::Memory() const {
  PENSTOCK_ASSIGN_OR_RETURN(PJRT_Executable * executable, Unloaded());
  const absl::StatusOr<MemoryStats> memory = ReadMemory(client_->api(), executable);
  DestroyExecutable(client_->api(), executable);
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(memory.status(), ProgramName(*program_)));
  return memory;
}

absl::StatusOr<CostEstimate> PjrtExecutable::Cost() const {
  PENSTOCK_ASSIGN_OR_RETURN(PJRT_Executable * executable, Unloaded());
  const absl::StatusOr<CostEstimate> cost = ReadCost(client_->api(), executable);
  DestroyExecutable(client_->api(), executable);
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(cost.status(), ProgramName(*program_)));
  return cost;
}

}  // namespace penstock::runtime
