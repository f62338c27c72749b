// TPUs: computations on several cores (tf.compat.v1.tpu, tf.contrib.tpu), and the address of a TPU.
//
//   tf::tpu::TPUClusterResolver resolver("grpc://10.0.0.2:8470");      // or "" for this machine
//   const auto computation = [&](const tf::Tensors& in) -> tf::Fetches {
//     tf::Tensor loss = Loss(in[0], in[1]);                            // of one shard's rows
//     tf::tpu::CrossShardOptimizer optimizer(tf::train::GradientDescentOptimizer(0.1));
//     return {tf::Reshape(loss, {1}), optimizer.Minimize(loss)};
//   };
//   tf::Tensors out = tf::tpu::Shard(computation, {x, labels}, /*num_shards=*/8);   // loss: f32[8]
//   tf::Session session(resolver.GetMaster());
//   PENSTOCK_RETURN_IF_ERROR(session.Run(tf::tpu::InitializeSystem()).status());
//   PENSTOCK_ASSIGN_OR_RETURN(Array losses, session.Run(out[0], {{x, batch}, {labels, y}}));
//
// Shards. The session compiles one program for as many devices as there are shards (SPMD). Every
// device has all variables. Within the computation, a shard has its slice of each input along axis
// 0; a placeholder that is fed and used by Shard only is sent to the devices in slices. Operations
// outside compute the same on every device. When a program is compiled, a line on stderr says how
// many shards it really uses: "session: 8 shards on 8 devices (TPU v2), 16 examples each".
//
// Gradients within a computation are those of the shard's own rows, until CrossShardOptimizer or
// CrossReplicaSum sums them. N shards with CrossShardOptimizer take the same step as one device
// with the whole batch, if the loss is a mean over rows.
//
// Variables have one value on all shards. If the values assigned by shards differ (moving averages
// of batch normalization, which are not summed), floats get the mean over shards and other types
// the value of shard 0; in TensorFlow the copies may diverge (tpu/replica_agreement.h).
//
// Works on any devices: several CPU devices (ConfigProto.cpu_devices) stand for the cores of a TPU.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/session/graph.h"
#include "penstock/session/session.h"
#include "penstock/session/tpu/cross_shard_optimizer.h"

namespace penstock::session::tpu {

// ---- The system ----

// Address of a TPU (tf.distribute.cluster_resolver.TPUClusterResolver).
class TPUClusterResolver {
 public:
  // `tpu`: "grpc://host:port", or "host:port", a worker's address; "" or "local": the devices of
  // this machine, those of PENSTOCK_DEVICE or else the CPU; "tpu", "gpu", "cpu": these devices of
  // this machine. Zone and project are TensorFlow's, for the names of Cloud TPUs, and not used.
  explicit TPUClusterResolver(absl::string_view tpu = "", absl::string_view zone = "",
                              absl::string_view project = "",
                              absl::string_view job_name = "worker");

  // Session's target: "grpc://host:port"; empty for the devices of this machine.
  const std::string& Master() const { return master_; }
  const std::string& GetMaster() const { return master_; }
  const std::string& get_job_name() const { return job_name_; }
  // Addresses by job: {{"worker", {"10.0.0.2:8470"}}}; empty for this machine.
  std::map<std::string, std::vector<std::string>> ClusterSpec() const;
  // Number of devices by kind, as Session::ListDevices of a session with this target has them:
  // {{"TPU", 8}}. Opens the devices.
  absl::StatusOr<std::map<std::string, int>> NumAccelerators(const ConfigProto& config = {}) const;

 private:
  std::string master_, job_name_;
};

// The system's devices, as a string tensor of their names (in TensorFlow a serialized topology).
// Devices are opened by the session, so running it changes nothing.
Tensor InitializeSystem(SourceLocation where = SourceLocation::Current());
// Does nothing: the devices are released with the session.
Operation ShutdownSystem(SourceLocation where = SourceLocation::Current());

// ---- Computations ----

// Builds a computation from the inputs of one shard. Tensors among its outputs are returned by
// Shard; operations run before any of them.
using Computation = std::function<Fetches(const Tensors& inputs)>;

struct ShardOptions {
  // For each input, the axis that is divided; default 0. The extent must be a multiple of
  // num_shards: an error when the graph is built if it is known, otherwise of Run.
  std::vector<int> input_shard_axes = {};
  // Whether an output is joined from all shards, or taken from shard 0: one entry for all outputs,
  // or one for each; default true. Outputs without axes (a scalar loss) cannot be joined, which is
  // an error: reshape them to {1}, or take them from shard 0.
  std::vector<bool> outputs_from_all_shards = {};
  // For each output, the axis along which shards are concatenated; default 0.
  std::vector<int> output_shard_axes = {};
  std::string name = "";
};
// Runs `computation` on num_shards devices, each with its slices of the inputs (tpu.shard). Returns
// its output tensors; running one runs the operations among the outputs too.
Tensors Shard(const Computation& computation, const Tensors& inputs = {}, int num_shards = 1,
              const ShardOptions& options = {}, SourceLocation where = SourceLocation::Current());
// Shard along axis 0 of all inputs and outputs (tpu.batch_parallel).
Tensors BatchParallel(const Computation& computation, const Tensors& inputs = {},
                      int num_shards = 1, SourceLocation where = SourceLocation::Current());
// Runs `computation` on one device with whole inputs (tpu.rewrite). Its outputs as they are.
Tensors Rewrite(const Computation& computation, const Tensors& inputs = {},
                absl::string_view name = "", SourceLocation where = SourceLocation::Current());

// ---- Sums over shards ----

// Number of shards of the computation that is being built, or that SetNumberOfShards said; none
// outside (tpu_function.get_tpu_context().number_of_shards).
std::optional<int> NumberOfShards();
// Says the number of shards outside of a computation (get_tpu_context().set_number_of_shards), in
// the default graph; none: unset. It makes no shards: only Shard does. Where TensorFlow would scale
// the loss of CrossShardOptimizer by this number nevertheless, the number of shards that run counts
// here. An error within Shard, and Shard with another number is an error.
void SetNumberOfShards(std::optional<int> number_of_shards,
                       SourceLocation where = SourceLocation::Current());
// RAII form (tpu_function.tpu_shard_context).
class TpuShardContext {
 public:
  explicit TpuShardContext(int number_of_shards, SourceLocation where = SourceLocation::Current());
  ~TpuShardContext();
  TpuShardContext(const TpuShardContext&) = delete;
  TpuShardContext& operator=(const TpuShardContext&) = delete;

 private:
  Graph* graph_;
  std::optional<int> outer_;
};

// Sum over the shards of the computation; every shard gets it (tpu.cross_replica_sum). An error
// outside of a shard context: neither within Shard or Rewrite nor after SetNumberOfShards.
Tensor CrossReplicaSum(const Tensor& x, absl::string_view name = "",
                       SourceLocation where = SourceLocation::Current());
// The same for several tensors with one collective.
Tensors CrossReplicaSum(const Tensors& xs, absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::tpu
