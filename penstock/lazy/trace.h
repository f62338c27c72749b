// Trace: what a thread has recorded for a device and not executed yet. Internal to the room.
//
// A trace records into its open segment, an ir::Graph whose parameters are buffers. mark_step
// executes the values that living tensors have there and closes the segment. A closed segment is
// kept only by tensors that can still be differentiated through it (autograd.h).
//
// Thread safety: a trace belongs to its thread; nothing here is synchronized.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/graph_hash.h"
#include "penstock/lazy/context.h"
#include "penstock/lazy/tensor_impl.h"

namespace penstock::lazy {

// A graph with the buffers of its parameters.
struct Segment {
  explicit Segment(int num_replicas);
  ~Segment();

  // Makes this a new, empty segment, whose graph expects the same program as before. Nothing refers
  // to the old one any longer.
  void Restart();

  // The parameter for these contents; one for each. Invalid, with an error of the graph, if they
  // are lost.
  ir::Value Parameter(const std::shared_ptr<DeviceData>& contents);

  uint64_t serial;  // unique in the process
  ir::Graph graph;
  std::vector<std::shared_ptr<DeviceData>> parameters;
  absl::flat_hash_map<const DeviceData*, ir::Value> parameter_of;

  // The values by which gradients of this graph leave it: leaves, and tensors of closed segments.
  struct Identity {
    ir::Value value;
    bool is_leaf = false;
    // The leaf, or the tensor of a closed segment, and the version of its contents.
    std::weak_ptr<TensorImpl> tensor;
    uint64_t version = 0;
    // Otherwise, where its history is, as in TensorImpl.
    std::shared_ptr<Segment> origin;
    ir::Value origin_value;
    bool freed = false;
  };
  std::vector<Identity> identities;
  void AddIdentity(Identity identity);
  // By node: whether it depends on an identity differentiably.
  const std::vector<bool>& Reached();
  // By node: whether backward() without retain_graph has differentiated it.
  std::vector<bool> freed;

  // ir::Gradients and ir::Fingerprint of the graph. What they made for the same arguments before
  // Restart is used again if the graph is still the same.
  ir::Values Gradients(const ir::Values& ys, const ir::Values& xs, const ir::Values& cotangents);
  ir::Hash128 Fingerprint();
  // Number of nodes that Gradients has visited, for tests of its cost.
  int64_t num_visited = 0;

  // The last differentiable values of views: by them a gradient with respect to a view is found.
  struct ViewValue {
    std::weak_ptr<TensorImpl> view;
    uint64_t version = 0;  // of its contents
    ir::Value value;
  };
  absl::flat_hash_map<const TensorImpl*, ViewValue> views;

  // Values whose gradients are shown to hooks (hooks.h).
  struct Hooked {
    ir::Value value;
    std::shared_ptr<TensorHooks> hooks;
  };
  std::vector<Hooked> hooked;

 private:
  struct KnownGradients {
    ir::Values ys, xs, cotangents, gradients;
    ir::Graph::Position begin, end;
  };
  struct KnownFingerprint {
    ir::Values results;
    ir::Hash128 hash;
  };
  static constexpr size_t kMaxKnown = 64;
  // Forgets what was made for another graph.
  void ForgetUnlessSame();

  std::vector<bool> reached_;      // of the first nodes
  int64_t known_divergences_ = 0;  // of the graph for which the following was made
  std::vector<KnownGradients> known_gradients_;
  std::vector<KnownFingerprint> known_fingerprints_;
};

struct Reach;

class Trace {
 public:
  explicit Trace(const Device& device);

  const Device& device() const { return device_; }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  ir::Graph& graph() const { return segment_->graph; }

  // The tensor's value in the open segment. Plain: nothing is differentiable through it.
  // Differentiable: what the operations of a thread with gradients use. Invalid after an error of
  // the graph.
  ir::Value Plain(TensorImpl& impl);
  ir::Value Differentiable(TensorImpl& impl);

  // The value of a tensor that has a history: a node of its own, by which the gradient with respect
  // to the tensor is told from those with respect to others of the same value, and that depends on
  // an identity. `value` may be another tensor's if its node is older than `first_new`.
  ir::Value Own(ir::Value value, int first_new);

  // The value of a tensor whose history, that of `before`, goes on although the new contents do not
  // depend on the old ones: their gradient is zero, as in PyTorch.
  ir::Value KeepHistory(ir::Value before, ir::Value value);

  // A new root with this value of the open segment.
  std::shared_ptr<TensorImpl> MakeRoot(ir::Value value, bool history, absl::string_view name);
  // Replaces the contents of a tensor; those of a view by updating the tensor that it is a view of.
  // The value has the tensor's type. `history`: whether it depends on a leaf differentiably.
  void Assign(const std::shared_ptr<TensorImpl>& impl, ir::Value value, bool history);
  // The same without gradient recording (no_grad): the tensor keeps its history, as in PyTorch.
  void AssignPlain(const std::shared_ptr<TensorImpl>& impl, ir::Value value);

  // Removes a root's history (Tensor::detach_).
  void Detach(TensorImpl& root);

  // To be called before a new operation: closes the segment if everything in it was read.
  void BeginOperation() {
    if (was_read_ && differentiations_ == 0) CloseIfDone();
  }

  // While one lives, the segment stays open: backward() calls hooks, which may record and read.
  class Differentiating {
   public:
    explicit Differentiating(Trace& trace) : trace_(trace) { ++trace_.differentiations_; }
    ~Differentiating() { --trace_.differentiations_; }
    Differentiating(const Differentiating&) = delete;
    Differentiating& operator=(const Differentiating&) = delete;

   private:
    Trace& trace_;
  };

  // Runs everything that living tensors need, and closes the segment. Does not block.
  absl::Status MarkStep();
  // Runs what the tensor needs; returns its contents.
  absl::StatusOr<std::shared_ptr<DeviceData>> Materialize(const std::shared_ptr<TensorImpl>& impl);

 private:
  bool IsCurrent(const TensorImpl::Cached& cached, TensorImpl& impl) const {
    return cached.segment == segment_->serial && cached.version == impl.root().version;
  }
  // Whether the tensor that a view is of was given another type or device since, by Module::to: then
  // it has no value, which is an error of the graph.
  bool IsOutdated(TensorImpl& view);
  // A root's value in the open segment.
  ir::Value RootValue(TensorImpl& root);
  // Makes a value, if it is valid, that which `cached` of the tensor has for the open segment.
  void KeepValue(TensorImpl::Cached& cached, TensorImpl& impl, ir::Value value);
  ir::Value MakeIdentity(TensorImpl& impl, ir::Value value);
  void SetRoot(const std::shared_ptr<TensorImpl>& root, ir::Value value, bool history);
  void AddPending(const std::shared_ptr<TensorImpl>& root);
  std::vector<std::shared_ptr<TensorImpl>> LivingTensors();
  void CloseIfDone();
  // Whether the root needs the segment for gradients after it was executed.
  static bool IsKept(const TensorImpl& root, const Reach& reach);
  void Close(const std::vector<std::shared_ptr<TensorImpl>>& living, const Reach& reach);

  const Device device_;
  std::shared_ptr<Segment> segment_;
  int differentiations_ = 0;
  bool was_read_ = false;                           // since the last check whether it can be closed
  int reads_ = 0;                                   // of the segment
  std::vector<std::weak_ptr<TensorImpl>> pending_;  // roots with values of the segment
};

// What a thread records: its traces, the first error, whether gradients are wanted.
class Recorder {
 public:
  static Recorder& OfThread();

  Trace& TraceOf(const Device& device);
  // Of all devices that this thread has recorded for.
  std::vector<Trace*> traces();

  // Keeps the first error.
  void Fail(const absl::Status& error);
  // The first error since it was last taken.
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }
  const absl::Status& error() const { return error_; }

  bool grad_enabled = true;

 private:
  std::map<std::pair<const runtime::Client*, int>, std::unique_ptr<Trace>> traces_;
  absl::Status error_;
};

}  // namespace penstock::lazy
