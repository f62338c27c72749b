// Room runtime: programs on devices. It may use base and ir.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto client, OpenClient({.device = "cpu", .cpu_devices = 8}));
//   PENSTOCK_ASSIGN_OR_RETURN(ir::Program program, ir::PrintStableHlo(graph));
//   PENSTOCK_ASSIGN_OR_RETURN(auto step, client->Compile(program));
//   PENSTOCK_ASSIGN_OR_RETURN(Buffer x, client->Put(array, client->devices()[0]));
//   PENSTOCK_ASSIGN_OR_RETURN(auto out, step->Execute({{x}}));   // [replica][result]
//   PENSTOCK_ASSIGN_OR_RETURN(Array y, out[0][0].Get());         // waits, copies to the host
//
// Client is the one seam of the house: everything above it (training, the four front ends) sees
// only this header, whether the accelerator is in this machine (PJRT plugin) or on another host
// (room remote).
//
// Asynchrony. Put, Execute and GetAsync return before the device is done; a later call that uses
// their buffers is ordered after them. An error on the device comes out where the host next looks:
// Buffer::Await, Get or Event::Await, with the program's name and, where the plugin says it, the
// operation's origin.
//
// Threads: every object here may be used by several threads.
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
  int id = 0;                 // of the platform; unique over hosts
  int index = 0;              // in Client::devices()
  std::string kind;           // "cpu", "TPU v3", "NVIDIA H200"
  std::string description;    // what the plugin calls it
  int64_t memory_bytes = -1;  // -1: not said
  int process = 0;
};

// Something the device will have done.
class Event {
 public:
  virtual ~Event() = default;
  virtual absl::Status Await() = 0;
  virtual bool IsReady() = 0;
  // Calls `callback` once, when done: on a thread of the runtime's, or at once on this one if that
  // is already so. It must be short and not wait for the device.
  virtual void OnReady(std::function<void(absl::Status)> callback) = 0;
};

class BufferImpl;

// Memory on one device holding one tensor. Copies of a Buffer are the same memory; the last one
// frees it.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::shared_ptr<BufferImpl> impl) : impl_(std::move(impl)) {}

  bool valid() const { return impl_ != nullptr; }
  const TensorType& type() const;
  const Device& device() const;
  // Donated to an execution: its contents are gone and using it is an error.
  bool donated() const;

  absl::Status Await() const;
  // A host array with the contents. On a CPU device it may be the device's own memory: it must not
  // be written, and while the array lives, an execution that donates this buffer copies.
  absl::StatusOr<Array> Get() const;
  // Copies into `out` (same type and shape); out must live until the event is done.
  absl::StatusOr<std::shared_ptr<Event>> GetAsync(Array out) const;

  const std::shared_ptr<BufferImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<BufferImpl> impl_;
};
using Buffers = std::vector<Buffer>;

// What a client implements for its buffers.
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

struct MemoryStats {  // bytes, for each device
  int64_t arguments = 0, outputs = 0, aliased = 0, temporary = 0, code = 0;
};

struct MemoryRoom {           // what can still be taken of a device's memory
  int64_t bytes = INT64_MAX;  // INT64_MAX: not known
  std::string where = {};     // "this machine", "TPU_0(...)"
  bool shared = false;        // by all devices of this process: a CPU's
};

struct CostEstimate {
  double flops = -1, bytes_accessed = -1, optimal_seconds = -1;  // -1: the plugin does not say
};

class Executable {
 public:
  virtual ~Executable() = default;

  virtual const ir::Program& program() const = 0;
  // It was compiled by an earlier run and kept.
  virtual bool from_cache() const { return false; }
  // arguments[replica][parameter] -> results[replica][result]. Types, shapes and devices are
  // checked here, before the plugin sees them. Arguments that the program donates are gone
  // afterwards, also after an error once execution has begun.
  virtual absl::StatusOr<std::vector<Buffers>> Execute(absl::Span<const Buffers> arguments) = 0;
  virtual absl::StatusOr<MemoryStats> Memory() const = 0;
  virtual absl::StatusOr<CostEstimate> Cost() const = 0;
};

struct CompileOptions {
  // devices[replica]; empty means the client's first num_replicas devices.
  std::vector<int> devices = {};
  // XLA debug options by name, for this program only.
  std::vector<std::pair<std::string, std::string>> xla_flags = {};
  // The compiler may decide to copy memory that the program donates, which needs room for both and
  // time for the copy. By default that is an error of Compile.
  bool allow_copied_donations = false;
};

// A function of this process that programs call by name (ir::CustomCall, api_version 4).
struct Kernel {
  std::string name;
  void* handler = nullptr;  // XLA_FFI_Handler*; see xla/ffi/api/ffi.h
};

class Client {
 public:
  virtual ~Client() = default;

  virtual const std::string& platform() const = 0;       // "cpu", "tpu", "cuda"
  virtual const std::string& version() const = 0;        // for people and for cache keys
  virtual absl::Span<const Device> devices() const = 0;  // those that this process can use

  // `program` needs as many devices as it has replicas. Takes seconds to minutes; thread-safe.
  virtual absl::StatusOr<std::shared_ptr<Executable>> Compile(
      const ir::Program& program, const CompileOptions& options = {}) = 0;
  // Copies, or on CPU uses in place when the memory is aligned to 64 bytes and has an owner:
  // `array` must not be written while the buffer lives. Nor does the device ever write it: donating
  // such a buffer costs a copy. Memory without an owner is read before this returns. kString has no
  // place on a device: an error.
  virtual absl::StatusOr<Buffer> Put(const Array& array, const Device& device) = 0;
  // Put of each; a client whose devices are far away sends them together.
  virtual absl::StatusOr<Buffers> PutAll(absl::Span<const Array> arrays, const Device& device);
  // As of now. Unknown where a client does not say.
  virtual MemoryRoom FreeMemory(const Device& device);

  // Makes functions of this process known to the programs that are compiled from now on. An error
  // where ClientOptions::kernels is off or programs do not run in this process; that is the
  // default.
  virtual absl::Status AddKernels(absl::Span<const Kernel> kernels);
  // A line for the log beside the plugin's own messages, if there is one.
  virtual void Log(absl::string_view) {}
};

struct ClientOptions {
  // "cpu", "tpu" or "gpu"; empty: the environment variable PENSTOCK_DEVICE, else "cpu".
  std::string device = {};
  // The plugin's shared library; empty: PENSTOCK_<DEVICE>_PLUGIN, else where the wheels put it (see
  // plugin.h, which also says so in the error when there is none).
  std::string plugin_path = {};
  int cpu_devices = 1;
  // CPU: programs may call kernels of this process where they are faster than the plugin's code
  // (room kernels). The environment variable PENSTOCK_KERNELS=0 turns them off, too.
  bool kernels = true;
  // GPU: take the whole memory in advance, as JAX does. Default: as needed.
  bool preallocate = false;
  // Where compiled programs are kept between runs: a folder, or "0": nowhere. Empty: the
  // environment variable PENSTOCK_COMPILE_CACHE, else penstock/programs in the user's cache folder.
  std::string compile_cache = {};
  // At most this much of it; what was not used for longest goes first.
  int64_t compile_cache_bytes = int64_t{2} << 30;
  // A folder to write every program's text into, as it is printed and as the compiler optimised it
  // (program_dump.h); such programs are not taken from the compile cache. Empty: the environment
  // variable PENSTOCK_DUMP_HLO, else none.
  std::string dump_hlo = {};
  // Where the plugin's own messages go; empty: a file in the user's cache folder, named in errors.
  std::string log_path = {};
};

// A device that was asked for and is not there is an error that lists what there is; nothing falls
// back.
absl::StatusOr<std::shared_ptr<Client>> OpenClient(const ClientOptions& options = {});

}  // namespace penstock::runtime
