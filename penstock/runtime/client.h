// Room runtime: compiles programs and executes them on devices. It may use base and ir.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto client, OpenClient({.device = "cpu", .cpu_devices = 8}));
//   PENSTOCK_ASSIGN_OR_RETURN(ir::Program program, ir::PrintStableHlo(graph));
//   PENSTOCK_ASSIGN_OR_RETURN(auto step, client->Compile(program));
//   PENSTOCK_ASSIGN_OR_RETURN(Buffer x, client->Put(array, client->devices()[0]));
//   PENSTOCK_ASSIGN_OR_RETURN(auto out, step->Execute({{x}}));   // [replica][result]
//   PENSTOCK_ASSIGN_OR_RETURN(Array y, out[0][0].Get());         // blocks, copies D2H
//
// Client is the interface between the source tree and accelerators: training and the front ends
// include only this header, whether the accelerator is in this machine (a PJRT plugin) or on
// another host (room remote).
//
// Asynchronous dispatch. Put, Execute and GetAsync return before the device is done; a later call
// that uses their buffers is ordered after them. An error on the device is returned by the call
// that synchronizes: Buffer::Await, Get or Event::Await, with the program's name and, if the plugin
// reports it, the operation's origin. Client does not limit executions in flight; the caller does.
//
// Donated buffers. A parameter with Program::alias[i] >= 0 is donated (input-output aliasing): its
// memory is reused by a result, and using its Buffer afterwards is an error.
//
// Thread-safe: every object here may be used by several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::runtime {

using base::Array;
using ir::TensorType;

struct Device {
  int id = 0;                 // the platform's id; unique across hosts
  int index = 0;              // index in Client::devices()
  std::string kind;           // "cpu", "TPU v3", "NVIDIA H200"
  std::string description;    // the plugin's name of the device
  int64_t memory_bytes = -1;  // -1: unknown
  int process = 0;
};

// Completion event: the future of a transfer or an execution.
class Event {
 public:
  virtual ~Event() = default;
  virtual absl::Status Await() = 0;
  virtual bool IsReady() = 0;
  // Calls `callback` once, on completion: on a thread of the runtime, or immediately on this thread
  // if it is complete already. The callback must be short and must not block on the device.
  virtual void OnReady(std::function<void(absl::Status)> callback) = 0;
};

class BufferImpl;

// One tensor in the memory of one device. Copies of a Buffer share that memory; the last one frees
// it.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::shared_ptr<BufferImpl> impl) : impl_(std::move(impl)) {}

  bool valid() const { return impl_ != nullptr; }
  const TensorType& type() const;
  const Device& device() const;
  // Whether it was donated to an execution: its contents are gone and using it is an error.
  bool donated() const;

  absl::Status Await() const;
  // Transfers the contents to the host (D2H); blocks until they are available. On a CPU device the
  // array may be a view of the device's memory: it must not be written, and while the array lives,
  // an execution that donates this buffer copies it instead.
  absl::StatusOr<Array> Get() const;
  // Copies into `out` (same type and shape) asynchronously; `out` must live until the event
  // completes.
  absl::StatusOr<std::shared_ptr<Event>> GetAsync(Array out) const;

  const std::shared_ptr<BufferImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<BufferImpl> impl_;
};
using Buffers = std::vector<Buffer>;

// Interface that a client implements for its buffers.
class BufferImpl {
 public:
  virtual ~BufferImpl() = default;
  virtual const TensorType& type() const = 0;
  virtual const Device& device() const = 0;
  virtual bool donated() const = 0;
  virtual absl::Status Await() = 0;
  virtual absl::StatusOr<Array> Get() = 0;
  virtual absl::StatusOr<std::shared_ptr<Event>> GetAsync(Array out) = 0;
};

// Memory that an execution uses, in bytes per device.
struct MemoryStats {
  int64_t arguments = 0, outputs = 0, aliased = 0, temporary = 0, code = 0;
};

// Free memory of a device.
struct FreeMemoryInfo {
  int64_t bytes = INT64_MAX;  // INT64_MAX: unknown
  std::string where = {};     // "this machine", "TPU_0(...)"
  bool shared = false;        // shared by all devices of this process, as CPU devices do
};

struct CostEstimate {
  double flops = -1, bytes_accessed = -1, optimal_seconds = -1;  // -1: unknown to the plugin
};

// A compiled program, loaded on its devices.
class Executable {
 public:
  virtual ~Executable() = default;

  virtual const ir::Program& program() const = 0;
  // Whether it was loaded from the compile cache.
  virtual bool from_cache() const { return false; }
  // Dispatches an execution: arguments[replica][parameter] -> results[replica][result]. Types,
  // shapes and devices are checked before the plugin is called. Donated arguments are invalid
  // afterwards, also after an error once execution has begun.
  virtual absl::StatusOr<std::vector<Buffers>> Execute(absl::Span<const Buffers> arguments) = 0;
  virtual absl::StatusOr<MemoryStats> Memory() const = 0;
  virtual absl::StatusOr<CostEstimate> Cost() const = 0;
};

struct CompileOptions {
  // devices[replica]. Empty: the client's first num_replicas devices.
  std::vector<int> devices = {};
  // XLA debug options by name, for this program only.
  std::vector<std::pair<std::string, std::string>> xla_flags = {};
  // Accepts a compiled program that copies donated memory instead of aliasing it, which costs
  // memory and time for the copy. By default that is an error of Compile (aliasing check).
  bool allow_copied_donations = false;
};

// A function of this process that programs call by name (custom call; ir::CustomCall, api_version
// 4).
struct Kernel {
  std::string name;
  void* handler = nullptr;  // XLA_FFI_Handler*; see xla/ffi/api/ffi.h
};

class Client {
 public:
  virtual ~Client() = default;

  virtual const std::string& platform() const = 0;       // "cpu", "tpu", "cuda"
  virtual const std::string& version() const = 0;        // for logs and cache keys
  virtual absl::Span<const Device> devices() const = 0;  // devices that this process can use

  // Compiles `program`, which needs as many devices as it has replicas. Takes seconds to minutes;
  // thread-safe.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Compile(
      const ir::Program& program, const CompileOptions& options = {}) = 0;
  // Transfers an array to a device (H2D). A CPU device uses the array's memory without a copy if it
  // is aligned to 64 bytes and has an owner: `array` must not be written while the buffer lives.
  // The device never writes to it either: donating such a buffer costs a copy. Memory without an
  // owner is read before Put returns. kString is an error: devices have no strings.
  virtual absl::StatusOr<Buffer> Put(const Array& array, const Device& device) = 0;
  // Put of each array; a client of remote devices sends them together.
  virtual absl::StatusOr<Buffers> PutAll(absl::Span<const Array> arrays, const Device& device);
  // Current free memory; unknown if the client does not report it.
  virtual FreeMemoryInfo FreeMemory(const Device& device);

  // Registers functions of this process (custom calls) for programs compiled from now on. An error
  // if ClientOptions::kernels is off or programs do not run in this process; that is the default.
  virtual absl::Status AddKernels(absl::Span<const Kernel> kernels);
  // Adds a line to the log of the plugin's messages, if there is one.
  virtual void Log(absl::string_view) {}

  // Opens the devices again after they were lost: a worker was started again, or its session ended.
  // Blocks until they are back, for a time that the client's options limit. Buffers from before stay
  // lost: using one returns the reason. Executables are compiled again on their first use.
  // ALREADY_EXISTS: no device is lost, and none is about to be. UNIMPLEMENTED: devices of this process are
  // never lost.
  virtual absl::Status Reopen();
  // Why the devices will soon be lost, as their machine has announced: "the worker ends in 30 s (SIGTERM)"; no
  // value: nothing is known. Cheap enough to ask before each execution. Reopen then gives the devices up, and
  // waits for their return.
  virtual std::optional<std::string> Draining() const { return std::nullopt; }
};

struct ClientOptions {
  // "cpu", "tpu" or "gpu", or the address of a worker ("grpc://host:port", room remote); empty: the
  // environment variable PENSTOCK_DEVICE, else "cpu".
  std::string device = {};
  // Path of the plugin's shared library; empty: PENSTOCK_<DEVICE>_PLUGIN, else the wheels' default
  // path (pjrt/plugin.h; the error lists the paths that were searched).
  std::string plugin_path = {};
  int cpu_devices = 1;
  // CPU: programs may call kernels of this process that are faster than the plugin's code (room
  // kernels). The environment variable PENSTOCK_KERNELS=0 also disables them.
  bool kernels = true;
  // GPU: preallocates the whole device memory, as JAX does. Default: allocates on demand.
  bool preallocate = false;
  // Compile cache: a folder for compiled programs, or "0" to disable it. Empty: the environment
  // variable PENSTOCK_COMPILE_CACHE, else penstock/programs in the user's cache folder.
  std::string compile_cache = {};
  // Size limit of the compile cache; the least recently used programs are evicted.
  int64_t compile_cache_bytes = int64_t{2} << 30;
  // Folder for a dump of every program: its StableHLO and its optimized HLO (program_dump.h).
  // Dumped programs bypass the compile cache. Empty: the environment variable PENSTOCK_DUMP_HLO,
  // else no dump.
  std::string dump_hlo = {};
  // Log file for the plugin's own messages; empty: a file in the user's cache folder, named in
  // errors.
  std::string log_path = {};
};

// Payload of an error: devices were lost because their machine was taken away, as had been announced.
inline constexpr absl::string_view kPreemptedPayload = "penstock/preempted";

// Opens a client. If the requested device is not found, the error lists the available devices;
// there is no fallback.
absl::StatusOr<std::shared_ptr<Client>> OpenClient(const ClientOptions& options = {});

// Opens clients whose devices are elsewhere: OpenClient passes options.device that begins with the
// prefix ("grpc://") to the opener. A room above this one registers its openers before main. Returns
// true, for the initializer of a static variable.
using ClientOpener =
    std::function<absl::StatusOr<std::shared_ptr<Client>>(const ClientOptions& options)>;
bool RegisterClientOpener(absl::string_view prefix, ClientOpener opener);

}  // namespace penstock::runtime
