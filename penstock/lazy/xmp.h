// torch_xla's distributed.xla_multiprocessing (xmp): data-parallel training with one replica for
// each device.
//
//   absl::Status TrainReplica(int index) {
//     PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
//     ...
//   }
//   PENSTOCK_RETURN_IF_ERROR(xmp::spawn(TrainReplica, {.nprocs = 8, .device = "cpu"}));
//
// torch_xla starts a process for each device; here each is a thread of this process. So memory is
// shared: what the function captures is seen by all replicas, and must not be written by several
// without a lock. Tensors and modules belong to one thread; MpModelWrapper gives each replica its
// copy of a model.
//
// A program whose step has collectives (xm::all_reduce, xm::optimizer_step) runs on all devices
// together: at xm::mark_step each thread waits for the others. Threads that cannot meet, because
// they recorded different steps or one of them has returned, end in an error that names the
// ordinals and what each one waits for (replicas.h).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/lazy/tensor.h"
#include "penstock/runtime/client.h"

namespace penstock::lazy::xmp {

struct SpawnOptions {
  // Number of threads; 1 trains on one device. 0: all devices (a CPU has one unless nprocs says
  // more).
  int nprocs = 0;
  // "" (PENSTOCK_DEVICE, else the CPU), "cpu", "tpu", "gpu".
  std::string device = {};
  // The client whose devices are used. Default: that of the process, or a new one.
  std::shared_ptr<runtime::Client> client = nullptr;
  // For how long a replica waits for others at a rendezvous or a collective, in seconds, before
  // this is an error; above 0. A step that takes longer on one ordinal than on another needs more.
  double timeout_seconds = 120;
};

// Runs fn(index) in a thread for each of the ordinals 0 .. nprocs - 1, and waits for all of them.
// Returns the first error ("ordinal 3: ..."; exceptions are errors, too); the other threads are
// then ended as soon as they reach a rendezvous, a collective or a loader, which return CANCELLED.
// A function that reaches none of them is not interrupted: spawn prints the error to stderr after
// 10 s, and returns when the function does.
absl::Status spawn(const std::function<absl::Status(int index)>& fn,
                   const SpawnOptions& options = {});

// A function without a result.
template <typename Function>
requires std::is_void_v<std::invoke_result_t<const Function&, int>> absl::Status spawn(
    const Function& fn, const SpawnOptions& options = {}) {
  const std::function<absl::Status(int)> body = [&](int index) {
    fn(index);
    return absl::OkStatus();
  };
  return spawn(body, options);
}

// With further arguments for every replica, as in torch_xla: spawn(fn, std::tuple(flags), {...}).
template <typename Function, typename... Args>
absl::Status spawn(const Function& fn, const std::tuple<Args...>& args,
                   const SpawnOptions& options = {}) {
  return spawn(
      [&](int index) -> absl::Status {
        return std::apply([&](const Args&... each) { return fn(index, each...); }, args);
      },
      options);
}

// A model whose weights are created once, and of which every replica gets a copy with these values.
//
//   xmp::MpModelWrapper model([] { return std::make_shared<ResNet20>(); });   // before spawn
//   PENSTOCK_ASSIGN_OR_RETURN(const auto net, model.to(device));              // in each thread
//
// C++ cannot copy a module of an unknown class, so the wrapper has the function that makes one: its
// first result gives the values (state_dict), and each replica calls it again for its copy. The
// function is called by one thread at a time. Thread-safe.
template <typename Make>
class MpModelWrapper {
 public:
  using Model = std::invoke_result_t<Make>;  // std::shared_ptr of a module, or its handle

  explicit MpModelWrapper(Make make)
      : make_(std::move(make)), state_(base::CatchExceptions([this] { return FirstState(); })) {}

  // The caller's own copy of the model on `device`.
  absl::StatusOr<Model> to(const Device& device) {
    PENSTOCK_RETURN_IF_ERROR(state_.status());
    if (!device.valid()) return absl::InvalidArgumentError("MpModelWrapper: the device is invalid");
    const std::lock_guard lock(mutex_);
    return base::CatchExceptions([&]() -> absl::StatusOr<Model> {
      PENSTOCK_ASSIGN_OR_RETURN(Model copy, Made());
      PENSTOCK_RETURN_IF_ERROR(copy->load_state_dict(*state_));
      copy->to(device);
      return copy;
    });
  }

 private:
  absl::StatusOr<Model> Made() {
    Model model = make_();
    if (static_cast<bool>(model)) return model;
    return absl::InvalidArgumentError("MpModelWrapper: the function returned null, not a model");
  }
  absl::StatusOr<base::NamedArrays> FirstState() {
    PENSTOCK_ASSIGN_OR_RETURN(const Model model, Made());
    return model->state_arrays();
  }

  Make make_;
  const absl::StatusOr<base::NamedArrays> state_;
  std::mutex mutex_;  // held while make_ is called
};

// Runs functions of several replicas one after another, for example to read a file of which memory
// holds one copy. Thread-safe.
//
//   xmp::MpSerialExecutor serial;                                   // before spawn
//   const auto dataset = serial.run([] { return LoadDataset(); });  // in each thread
class MpSerialExecutor {
 public:
  template <typename Function>
  auto run(Function&& function) -> decltype(function()) {
    const std::lock_guard lock(mutex_);
    return std::forward<Function>(function)();
  }

 private:
  std::mutex mutex_;
};

}  // namespace penstock::lazy::xmp
