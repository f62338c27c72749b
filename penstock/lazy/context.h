// Context: what the tensors of one client share: compiled programs by the fingerprint of their
// graph, the kernels, the executions in flight. Internal to the room.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/ir/graph_hash.h"
#include "penstock/kernels/kernels.h"
#include "penstock/runtime/cache/compile_history.h"
#include "penstock/runtime/client.h"

namespace penstock::lazy {

// A recorded program, before it is compiled.
struct StepProgram {
  // Of the graph and of what is donated: programs with equal keys are equal.
  ir::Hash128 key;
  // 1 without collectives; else the number of threads of xmp::spawn, which execute it together.
  int num_replicas = 1;
  // Pairs (parameter, result): the argument's memory becomes the result's.
  std::vector<std::pair<int, int>> donate = {};
  // Makes the graph for the compiler; called only if the program is not known.
  std::function<absl::StatusOr<std::unique_ptr<ir::Graph>>()> graph = {};
};

// Thread-safe.
class Context : public std::enable_shared_from_this<Context> {
 public:
  // The context of a client; the same one as long as anything holds it.
  static std::shared_ptr<Context> Of(std::shared_ptr<runtime::Client> client);

  explicit Context(std::shared_ptr<runtime::Client> client);
  ~Context();  // blocks until all executions are done

  const std::shared_ptr<runtime::Client>& client() const { return client_; }

  // The program compiled for these devices (by index, one for each replica). A program is compiled
  // once: other threads that want it meanwhile wait.
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Load(const StepProgram& program,
                                                            const std::vector<int>& devices);

  // Copies an array to a device (H2D), asynchronously.
  absl::StatusOr<runtime::Buffer> Put(const base::Array& array, int device);
  // Copies a buffer to the host (D2H); blocks until its value is available.
  absl::StatusOr<base::Array> Get(const runtime::Buffer& buffer);

  // Maximum number of compiled programs that are kept, as in torch_xla; the least recently used
  // ones are forgotten.
  static constexpr size_t kMaxPrograms = 1024;

  // Maximum number of executions in flight on a device: one running, one queued.
  static constexpr size_t kMaxInFlight = 2;
  // Notes that an execution was dispatched, of which `result` is the smallest result, and blocks
  // while more than kMaxInFlight are in flight. `donated`: arguments that are kept until it is
  // done, because releasing a donated buffer blocks on a CPU. Returns the error of an earlier
  // execution.
  absl::Status Dispatched(int device, const runtime::Buffer& result, runtime::Buffers donated);
  // Blocks until all executions on the device are done.
  absl::Status Synchronize(int device);

 private:
  struct Entry {
    std::mutex mutex;  // held while the program is compiled
    std::shared_ptr<runtime::Executable> executable;
    uint64_t used = 0;  // when it was last used, by uses_; guarded by the context's mutex_
  };
  struct Execution {
    base::Array copy;
    std::shared_ptr<runtime::Event> done;
    runtime::Buffers donated;
  };

  // Forgets the least recently used program if there are too many. Requires mutex_.
  void Evict();
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(const StepProgram& program,
                                                               const std::vector<int>& devices);

  // What is different from the most similar of the last programs; empty for the first one. Requires
  // mutex_.
  std::string WhatChanged(const ir::Program& program, const runtime::CompileOptions& options);

  const std::shared_ptr<runtime::Client> client_;
  const kernels::Lowering lowering_;
  std::mutex mutex_;  // guards the following
  std::map<std::pair<ir::Hash128, std::vector<int>>, std::shared_ptr<Entry>> programs_;
  uint64_t uses_ = 0;
  runtime::CompileHistory history_;
  static constexpr size_t kKeptTypes = 32;
  std::deque<std::vector<ir::TensorType>> types_;  // the inputs of the last programs
  std::vector<std::deque<Execution>> in_flight_;   // by device
};

}  // namespace penstock::lazy
