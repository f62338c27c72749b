// Session: runs parts of a graph on devices, and keeps the values of variables there.
//
//   tf::Session session;                                    // the default graph, the CPU
//   tf::Session accelerator("tpu");
//   PENSTOCK_RETURN_IF_ERROR(session.Run(tf::GlobalVariablesInitializer()));
//   PENSTOCK_ASSIGN_OR_RETURN(Array y, session.Run(loss, {{x, batch}}));
//   PENSTOCK_ASSIGN_OR_RETURN(std::vector<Array> r, session.Run({step, loss}, {{x, batch}}));
//
// A loop that runs the same fetches:
//
//   PENSTOCK_ASSIGN_OR_RETURN(tf::Callable train, session.MakeCallable({step, loss}, {x, labels}));
//   for (int i = 0; i < 100; ++i) { PENSTOCK_ASSIGN_OR_RETURN(auto r, train({batch, y})); }
//
// Run returns when everything is done, as in TensorFlow, and its feeds may be written again.
//
// Thread-safe: several threads may use one session; its Runs are executed one after another.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/runtime/client.h"
#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::session {

class Iterator;  // data.h

// What Run computes: a tensor, a variable's value, or an operation, which gives no value.
class Fetch {
 public:
  Fetch(const Tensor& tensor) : tensor_(tensor), operation_(tensor) {}  // NOLINT
  Fetch(const Operation& operation) : operation_(operation) {}          // NOLINT
  Fetch(const Variable& variable) : Fetch(variable.Value()) {}          // NOLINT
  Fetch(std::string name) : name_(std::move(name)) {}  // NOLINT: "loss:0", "train/step"
  Fetch(const char* name) : name_(name) {}             // NOLINT

  const Tensor& tensor() const { return tensor_; }
  const Operation& operation() const { return operation_; }
  const std::string& name() const { return name_; }

 private:
  Tensor tensor_;
  Operation operation_;
  std::string name_;
};
using Fetches = std::vector<Fetch>;

// Values in place of tensors, of any tensor that could be computed, not only of placeholders.
// Numbers are converted to the tensor's type as TensorFlow converts arrays of NumPy: fractions of
// integers are cut off, integers wrap in a narrower type. Floats beyond an integer type saturate, and
// NaN is 0, where TensorFlow's result depends on the processor.
using Feed = std::pair<Tensor, Array>;
using FeedDict = std::vector<Feed>;

struct ConfigProto {
  // The devices to run on; default: those of the session's target.
  std::shared_ptr<runtime::Client> client = nullptr;
  // Number of CPU devices to make for target "" or "cpu"; shards need as many.
  int cpu_devices = 1;
  // Prints each compilation and its cause to stderr (tf.ConfigProto.log_device_placement's place).
  bool log_compilations = false;
};

class Callable;

class Session {
 public:
  // `target`: "" (PENSTOCK_DEVICE, else the CPU), "cpu", "gpu", "tpu", or an address that a room
  // above opens. `graph`: default: the thread's default graph. An error of opening the devices is
  // returned by the first Run; status() has it before.
  explicit Session(absl::string_view target = "", const ConfigProto& config = {},
                   Graph* graph = nullptr);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const absl::Status& status() const;
  Graph* graph() const;

  // Runs what the fetches need, with the feeds in place of tensors. One Array for each fetch; that
  // of an operation is invalid.
  absl::StatusOr<std::vector<Array>> Run(const Fetches& fetches, const FeedDict& feeds = {});
  absl::StatusOr<Array> Run(const Tensor& fetch, const FeedDict& feeds = {});
  absl::Status Run(const Operation& fetch, const FeedDict& feeds = {});
  // The same of a list: Tensors, Operations, Variables, or names.
  template <
      typename T,
      std::enable_if_t<std::is_constructible_v<Fetch, T> && !std::is_same_v<T, Fetch>, int> = 0>
  absl::StatusOr<std::vector<Array>> Run(const std::vector<T>& fetches,
                                         const FeedDict& feeds = {}) {
    return Run(Fetches(fetches.begin(), fetches.end()), feeds);
  }

  // Run with everything but the arrays prepared: no look-ups of fetches and feeds.
  absl::StatusOr<Callable> MakeCallable(const Fetches& fetches, const Tensors& feeds = {});

  // Runs the fetches `n` times in one execution on the device (Keras's steps_per_execution), and
  // returns the values of the last one. Iterators deliver a batch for each; feeds are the same in
  // each. `steps_done`, if not null: receives the number of runs, which is below `n` if the data ended.
  absl::StatusOr<std::vector<Array>> RunLoop(int64_t n, const Fetches& fetches,
                                             const FeedDict& feeds = {},
                                             int64_t* steps_done = nullptr);

  // Position of the next element that a Run will take of an iterator (data.h), whatever was read
  // ahead; a text of a few numbers. Setting it resumes there, also in another process, if the
  // dataset has the same description and files.
  absl::StatusOr<std::string> IteratorPosition(const Iterator& iterator);
  absl::Status SetIteratorPosition(const Iterator& iterator, absl::string_view position);

  std::vector<runtime::Device> ListDevices() const;

  // Names of variables without a value.
  std::vector<std::string> UninitializedVariables() const;
  // Sets and reads variables without a program: for Saver and pretrained weights. By name, without
  // ":0".
  absl::StatusOr<Array> GetVariableValue(absl::string_view name) const;
  absl::Status SetVariableValue(absl::string_view name, const Array& value);
  // Calls `use` with the values of variables on the devices, all of the same moment: Runs wait until
  // it returns. It must neither call the session nor keep the buffers, which the next Run may take.
  absl::Status UseVariables(
      absl::Span<const std::string> names,
      absl::FunctionRef<absl::Status(const runtime::Buffers& values)> use) const;
  // The files of the machine that has the devices, for a session on a worker: with them as
  // SaverOptions::file_system the worker writes checkpoints, below its --write prefixes, and the
  // values do not travel here. FAILED_PRECONDITION: the devices are this machine's.
  absl::StatusOr<std::shared_ptr<io::FileSystem>> WorkerFiles() const;
  // Makes random operations continue as if each had run `draws` times: for resuming a training.
  void SetRandomDraws(uint32_t draws);

  void Close();

 private:
  friend class Callable;
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// Prepared Run of MakeCallable; shares the session's state and keeps it alive.
class Callable {
 public:
  // The arrays of the feeds, in MakeCallable's order.
  absl::StatusOr<std::vector<Array>> operator()(absl::Span<const Array> feeds);
  absl::StatusOr<std::vector<Array>> operator()(std::initializer_list<Array> feeds) {
    return (*this)(absl::MakeConstSpan(feeds.begin(), feeds.size()));
  }

 private:
  friend class Session;
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace penstock::session
