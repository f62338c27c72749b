// torch_xla's xm: which replica a thread is, communication between replicas, the end of a step in
// xmp::spawn. Part of xm.h.
//
// Operations on tensors (all_reduce, all_gather, ...) are recorded, like every operation; all
// ordinals must record the same ones, and execute them together at xm::mark_step. Host values are
// exchanged at once by rendezvous and mesh_reduce. Outside of xmp::spawn, and with one replica, all
// of them work with a world of one.
#pragma once

#include <any>
#include <functional>
#include <iostream>
#include <numeric>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/source_location.h"
#include "penstock/base/status.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy::optim {
class Optimizer;
}

namespace penstock::lazy::xm {

// ---- Which replica this thread is ----
// Outside of xmp::spawn: `defval`.
int xrt_world_size(int defval = 1);
int get_ordinal(int defval = 0);
int get_local_ordinal(int defval = 0);
// Ordinal 0, also outside of xmp::spawn. All replicas are local: `local` changes nothing.
bool is_master_ordinal(bool local = true);

// Prints the arguments, separated by spaces, and a newline on the master ordinal only.
template <typename... Args>
void master_print(const Args&... args) {
  if (!is_master_ordinal()) return;
  std::ostringstream line;
  const char* separator = "";
  ((line << separator << args, separator = " "), ...);
  line << '\n';
  std::cout << line.str() << std::flush;
}

// ---- Collectives of tensors, recorded ----
inline constexpr absl::string_view REDUCE_SUM = "sum";
inline constexpr absl::string_view REDUCE_MUL = "mul";
inline constexpr absl::string_view REDUCE_AND = "and";  // of bool
inline constexpr absl::string_view REDUCE_OR = "or";    // of bool
inline constexpr absl::string_view REDUCE_MIN = "min";
inline constexpr absl::string_view REDUCE_MAX = "max";

// The reduction over all replicas, elementwise, multiplied by `scale`; every replica gets it. The
// gradient of a sum is the sum of the gradients over replicas.
Tensor all_reduce(absl::string_view reduce_type, const Tensor& input, double scale = 1,
                  SourceLocation where = SourceLocation::Current());
// In place, in one collective: each tensor is replaced by its reduction. No gradient.
void all_reduce(absl::string_view reduce_type, const Tensors& inputs, double scale = 1,
                SourceLocation where = SourceLocation::Current());
// The value of every replica, concatenated along `dim` in order of ordinals.
Tensor all_gather(const Tensor& value, int64_t dim = 0,
                  SourceLocation where = SourceLocation::Current());
// Sum over replicas times `scale`, of which ordinal i gets the i-th of shard_count parts along
// scatter_dim. reduce_type must be "sum", shard_count the world size.
Tensor reduce_scatter(absl::string_view reduce_type, const Tensor& input, double scale,
                      int64_t scatter_dim, int shard_count,
                      SourceLocation where = SourceLocation::Current());
// Splits the value along split_dimension, sends part i to ordinal i, and concatenates the received
// parts along concat_dimension. split_count must be the world size.
Tensor all_to_all(const Tensor& value, int64_t split_dimension, int64_t concat_dimension,
                  int split_count, SourceLocation where = SourceLocation::Current());
// Sends the value of each source to its target, as pairs (source, target); an ordinal that is no
// target gets zeros.
Tensor collective_permute(const Tensor& value,
                          const std::vector<std::pair<int64_t, int64_t>>& pairs,
                          SourceLocation where = SourceLocation::Current());
// Replaces each tensor in place by its value on ordinal `root_ordinal`.
void collective_broadcast(const Tensors& tensors, int root_ordinal = 0,
                          SourceLocation where = SourceLocation::Current());

// ---- Exchange of host values ----
// Blocks until all ordinals have called it with this tag; returns the payloads in order of
// ordinals.
absl::StatusOr<std::vector<std::string>> rendezvous(
    absl::string_view tag, std::string payload = "",
    SourceLocation where = SourceLocation::Current());

namespace internal {
std::string LineOf(SourceLocation where);  // "train.cc:40"
absl::StatusOr<std::vector<std::any>> Exchange(absl::string_view function, absl::string_view tag,
                                               std::any payload, SourceLocation where);
absl::Status OtherType(absl::string_view tag, size_t ordinal, SourceLocation where);

// What mesh_reduce returns for a function that returns R, or StatusOr<R>.
template <typename R>
struct ReducedOf {
  using Type = absl::StatusOr<R>;
};
template <typename R>
struct ReducedOf<absl::StatusOr<R>> {
  using Type = absl::StatusOr<R>;
};
template <typename Reduce, typename T>
using Reduced =
    typename ReducedOf<std::invoke_result_t<const Reduce&, const std::vector<T>&>>::Type;
}  // namespace internal

// reduce_fn of the data of all ordinals, in their order: a std::vector<T>. Numbers, strings,
// Arrays, anything that can be copied: replicas share memory, so nothing is pickled. A Tensor is
// converted by cpu() first: reduce_fn gets Arrays. It may return absl::StatusOr<R>: then so does
// mesh_reduce.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const double accuracy,
//                             xm::mesh_reduce("accuracy", correct / total, xm::mean));
template <typename T, typename Reduce>
auto mesh_reduce(absl::string_view tag, T data, const Reduce& reduce_fn,
                 SourceLocation where = SourceLocation::Current()) -> internal::Reduced<Reduce, T> {
  PENSTOCK_ASSIGN_OR_RETURN(
      const std::vector<std::any> payloads,
      internal::Exchange("mesh_reduce", tag, std::any(std::move(data)), where));
  std::vector<T> all;
  for (size_t i = 0; i < payloads.size(); ++i) {
    const T* one = std::any_cast<T>(&payloads[i]);
    if (one == nullptr) return internal::OtherType(tag, i, where);
    all.push_back(*one);
  }
  return reduce_fn(all);
}
template <typename Reduce>
auto mesh_reduce(absl::string_view tag, const Tensor& data, const Reduce& reduce_fn,
                 SourceLocation where = SourceLocation::Current()) {
  return [&]() -> internal::Reduced<Reduce, Array> {
    PENSTOCK_ASSIGN_OR_RETURN(Array array, data.cpu());
    return mesh_reduce(tag, std::move(array), reduce_fn, where);
  }();
}
// Reduce functions of numbers of any type.
struct MeanFunction {
  template <typename T>
  double operator()(const std::vector<T>& values) const {
    double total = 0;
    for (const T& value : values) total += static_cast<double>(value);
    return values.empty() ? 0 : total / static_cast<double>(values.size());
  }
};
struct SumFunction {
  template <typename T>
  T operator()(const std::vector<T>& values) const {
    return std::accumulate(values.begin(), values.end(), T());
  }
};
inline constexpr MeanFunction mean{};
inline constexpr SumFunction sum{};

// ---- The end of a step ----
// Replaces the gradients of the optimizer's parameters by their means over replicas, in one
// collective. Does nothing with one replica.
void reduce_gradients(optim::Optimizer& optimizer,
                      SourceLocation where = SourceLocation::Current());
// reduce_gradients, then optimizer.step(); with `barrier` also xm::mark_step, whose error is
// returned. Pass barrier = true if no ParallelLoader marks the steps.
absl::Status optimizer_step(optim::Optimizer& optimizer, bool barrier = false,
                            SourceLocation where = SourceLocation::Current());

// Calls `closure` at the end of this thread's next xm::mark_step, when the tensors that it captured
// have their values: to print a loss without ending the step early. mark_step returns its error. A
// closure with run_async is called by a thread of its own, after those before it, and mark_step
// does not wait for it: the next one returns its error.
void add_step_closure(std::function<absl::Status()> closure, bool run_async = false);

// Blocks until everything that was executed on the devices is done; default: this thread's device.
absl::Status wait_device_ops(const std::vector<Device>& devices = {});

}  // namespace penstock::lazy::xm
