#include "penstock/ir/testing/run.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include <dlfcn.h>

#include "penstock/base/status.h"

#include "pjrt_c_api.h"

namespace penstock::ir::testing {
namespace {

const PJRT_Api* Api() {
  static const PJRT_Api* const api = [] {
    const char* path = std::getenv("PENSTOCK_CPU_PLUGIN");
    void* plugin = dlopen(path != nullptr ? path : PENSTOCK_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    PENSTOCK_CHECK(plugin != nullptr);
    return reinterpret_cast<const PJRT_Api* (*)()>(dlsym(plugin, "GetPjrtApi"))();
  }();
  return api;
}

// Zero-initialized arguments of a PJRT call, with struct_size set.
#define PENSTOCK_PJRT_ARGS_(type, name) \
  type##_Args name{};                   \
  name.struct_size = type##_Args_STRUCT_SIZE

absl::Status ToStatus(PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  PENSTOCK_PJRT_ARGS_(PJRT_Error_Message, message);
  message.error = error;
  Api()->PJRT_Error_Message(&message);
  absl::Status status =
      absl::InternalError(absl::string_view(message.message, message.message_size));
  PENSTOCK_PJRT_ARGS_(PJRT_Error_Destroy, destroy);
  destroy.error = error;
  Api()->PJRT_Error_Destroy(&destroy);
  return status;
}

absl::Status Await(PJRT_Event* event) {
  PENSTOCK_PJRT_ARGS_(PJRT_Event_Await, await);
  await.event = event;
  absl::Status status = ToStatus(Api()->PJRT_Event_Await(&await));
  PENSTOCK_PJRT_ARGS_(PJRT_Event_Destroy, destroy);
  destroy.event = event;
  Api()->PJRT_Event_Destroy(&destroy);
  return status;
}

struct Client {
  PJRT_Client* client;
  absl::Span<PJRT_Device* const> devices;
};

const Client& GetClient() {
  static const Client client = [] {
    PENSTOCK_PJRT_ARGS_(PJRT_Plugin_Initialize, initialize);
    PENSTOCK_CHECK_OK(ToStatus(Api()->PJRT_Plugin_Initialize(&initialize)));
    PJRT_NamedValue devices{};
    devices.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    devices.name = "cpu_device_count";
    devices.name_size = 16;
    devices.type = PJRT_NamedValue_kInt64;
    devices.int64_value = kNumDevices;
    devices.value_size = 1;
    PENSTOCK_PJRT_ARGS_(PJRT_Client_Create, create);
    create.create_options = &devices;
    create.num_options = 1;
    PENSTOCK_CHECK_OK(ToStatus(Api()->PJRT_Client_Create(&create)));
    PENSTOCK_PJRT_ARGS_(PJRT_Client_AddressableDevices, list);
    list.client = create.client;
    PENSTOCK_CHECK_OK(ToStatus(Api()->PJRT_Client_AddressableDevices(&list)));
    return Client{create.client, {list.addressable_devices, list.num_addressable_devices}};
  }();
  return client;
}

PJRT_Buffer_Type BufferType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return PJRT_Buffer_Type_PRED;
    case DType::kI8:
      return PJRT_Buffer_Type_S8;
    case DType::kI16:
      return PJRT_Buffer_Type_S16;
    case DType::kI32:
      return PJRT_Buffer_Type_S32;
    case DType::kI64:
      return PJRT_Buffer_Type_S64;
    case DType::kU8:
      return PJRT_Buffer_Type_U8;
    case DType::kU16:
      return PJRT_Buffer_Type_U16;
    case DType::kU32:
      return PJRT_Buffer_Type_U32;
    case DType::kU64:
      return PJRT_Buffer_Type_U64;
    case DType::kF16:
      return PJRT_Buffer_Type_F16;
    case DType::kBF16:
      return PJRT_Buffer_Type_BF16;
    case DType::kF32:
      return PJRT_Buffer_Type_F32;
    case DType::kF64:
      return PJRT_Buffer_Type_F64;
    default:
      return PJRT_Buffer_Type_INVALID;
  }
}

void Destroy(PJRT_Buffer* buffer) {
  if (buffer == nullptr) return;
  PENSTOCK_PJRT_ARGS_(PJRT_Buffer_Destroy, destroy);
  destroy.buffer = buffer;
  Api()->PJRT_Buffer_Destroy(&destroy);
}

// RAII owner of buffers.
struct Buffers {
  ~Buffers() {
    for (PJRT_Buffer* b : handles) Destroy(b);
  }
  std::vector<PJRT_Buffer*> handles;
};

absl::Status Put(const Array& array, PJRT_Device* device, Buffers& out) {
  PENSTOCK_PJRT_ARGS_(PJRT_Client_BufferFromHostBuffer, put);
  put.client = GetClient().client;
  put.data = array.raw();
  put.type = BufferType(array.dtype());
  put.dims = array.shape().dims().data();
  put.num_dims = array.rank();
  put.device = device;
  put.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  PENSTOCK_RETURN_IF_ERROR(ToStatus(Api()->PJRT_Client_BufferFromHostBuffer(&put)));
  out.handles.push_back(put.buffer);
  return Await(put.done_with_host_buffer);
}

absl::StatusOr<Array> Get(PJRT_Buffer* buffer, const TensorType& type) {
  Array out = Array::Uninitialized(type.dtype, type.shape);
  // The device may use another order of axes; the host array is row-major.
  std::vector<int64_t> minor_to_major;
  for (int i = type.shape.rank(); i-- > 0;) minor_to_major.push_back(i);
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  PENSTOCK_PJRT_ARGS_(PJRT_Buffer_ToHostBuffer, get);
  get.src = buffer;
  get.host_layout = &layout;
  get.dst = out.mutable_raw();
  get.dst_size = out.num_bytes();
  PENSTOCK_RETURN_IF_ERROR(ToStatus(Api()->PJRT_Buffer_ToHostBuffer(&get)));
  PENSTOCK_RETURN_IF_ERROR(Await(get.event));
  return out;
}

std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}

// CompileOptionsProto { 3: ExecutableBuildOptionsProto { 1: device ordinal, 4: replicas, 5:
// partitions } }.
std::string CompileOptions(int num_replicas) {
  const auto field = [](int number, uint64_t value) { return Varint(number << 3) + Varint(value); };
  const std::string build =
      field(1, static_cast<uint64_t>(-1)) + field(4, num_replicas) + field(5, 1);
  return Varint(3 << 3 | 2) + Varint(build.size()) + build;
}

}  // namespace

struct Executable::Impl {
  ~Impl() {
    PENSTOCK_PJRT_ARGS_(PJRT_LoadedExecutable_Destroy, destroy);
    destroy.executable = executable;
    Api()->PJRT_LoadedExecutable_Destroy(&destroy);
  }
  Program program;
  PJRT_LoadedExecutable* executable = nullptr;
};

absl::StatusOr<Executable> Executable::Compile(const Program& program) {
  PJRT_Program text{};
  text.struct_size = PJRT_Program_STRUCT_SIZE;
  text.code = const_cast<char*>(program.text.data());
  text.code_size = program.text.size();
  text.format = "mlir";
  text.format_size = 4;
  const std::string options = CompileOptions(program.num_replicas);
  PENSTOCK_PJRT_ARGS_(PJRT_Client_Compile, compile);
  compile.client = GetClient().client;
  compile.program = &text;
  compile.compile_options = options.data();
  compile.compile_options_size = options.size();
  if (absl::Status status = ToStatus(Api()->PJRT_Client_Compile(&compile)); !status.ok()) {
    return base::WithContext(status, absl::StrCat("compiling\n", program.text.substr(0, 20000)));
  }
  auto impl = std::make_shared<Impl>();
  impl->program = program;
  impl->executable = compile.executable;
  Executable out;
  out.impl_ = std::move(impl);
  return out;
}

absl::StatusOr<std::vector<Array>> Executable::Run(absl::Span<const Array> arguments) const {
  const std::vector<Array> copy(arguments.begin(), arguments.end());
  PENSTOCK_ASSIGN_OR_RETURN(auto results, RunReplicas({copy}));
  return std::move(results[0]);
}

absl::StatusOr<std::vector<std::vector<Array>>> Executable::RunReplicas(
    absl::Span<const std::vector<Array>> arguments) const {
  const Program& program = impl_->program;
  PENSTOCK_CHECK(static_cast<int>(arguments.size()) == program.num_replicas);
  std::vector<Buffers> in(arguments.size()), out(arguments.size());
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t r = 0; r < arguments.size(); ++r) {
    PENSTOCK_CHECK(arguments[r].size() == program.parameters.size());
    for (size_t i = 0; i < arguments[r].size(); ++i) {
      const TensorType met{arguments[r][i].dtype(), arguments[r][i].shape()};
      PENSTOCK_CHECK(met == program.parameters[i]);
      PENSTOCK_RETURN_IF_ERROR(Put(arguments[r][i], GetClient().devices[r], in[r]));
    }
    out[r].handles.resize(program.results.size());
    argument_lists.push_back(in[r].handles.data());
    output_lists.push_back(out[r].handles.data());
  }
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  PENSTOCK_PJRT_ARGS_(PJRT_LoadedExecutable_Execute, execute);
  execute.executable = impl_->executable;
  execute.options = &options;
  execute.argument_lists = argument_lists.data();
  execute.num_devices = arguments.size();
  execute.num_args = program.parameters.size();
  execute.output_lists = output_lists.data();
  PENSTOCK_RETURN_IF_ERROR(ToStatus(Api()->PJRT_LoadedExecutable_Execute(&execute)));
  std::vector<std::vector<Array>> results(arguments.size());
  for (size_t r = 0; r < arguments.size(); ++r) {
    for (size_t i = 0; i < program.results.size(); ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(Array result, Get(out[r].handles[i], program.results[i]));
      results[r].push_back(std::move(result));
    }
  }
  return results;
}

absl::StatusOr<int64_t> Executable::TemporaryBytes() const {
  PENSTOCK_PJRT_ARGS_(PJRT_LoadedExecutable_GetExecutable, get);
  get.loaded_executable = impl_->executable;
  PENSTOCK_RETURN_IF_ERROR(ToStatus(Api()->PJRT_LoadedExecutable_GetExecutable(&get)));
  PENSTOCK_PJRT_ARGS_(PJRT_Executable_GetCompiledMemoryStats, stats);
  stats.executable = get.executable;
  const absl::Status status = ToStatus(Api()->PJRT_Executable_GetCompiledMemoryStats(&stats));
  PENSTOCK_PJRT_ARGS_(PJRT_Executable_Destroy, destroy);
  destroy.executable = get.executable;
  PENSTOCK_RETURN_IF_ERROR(ToStatus(Api()->PJRT_Executable_Destroy(&destroy)));
  PENSTOCK_RETURN_IF_ERROR(status);
  return stats.temp_size_in_bytes;
}

absl::StatusOr<std::vector<Array>> Run(const Graph& graph, absl::Span<const Array> arguments) {
  PENSTOCK_ASSIGN_OR_RETURN(const Program program, PrintStableHlo(graph));
  PENSTOCK_ASSIGN_OR_RETURN(const Executable executable, Executable::Compile(program));
  return executable.Run(arguments);
}

absl::StatusOr<std::vector<std::vector<Array>>> RunReplicas(
    const Graph& graph, absl::Span<const std::vector<Array>> arguments) {
  PENSTOCK_ASSIGN_OR_RETURN(const Program program, PrintStableHlo(graph));
  PENSTOCK_ASSIGN_OR_RETURN(const Executable executable, Executable::Compile(program));
  return executable.RunReplicas(arguments);
}

}  // namespace penstock::ir::testing
