#include "penstock/lazy/trace.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/lazy/backward.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/step.h"

namespace penstock::lazy {
namespace {

uint64_t NextSerial() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

}  // namespace

Segment::Segment(int num_replicas) : serial(NextSerial()), graph("lazy_step", num_replicas) {}

Segment::~Segment() {
  for (Identity& identity : identities) ReleaseInLoop(std::move(identity.origin));
}

void Segment::Restart() {
  serial = NextSerial();
  graph.Restart();
  parameters.clear();
  parameter_of.clear();
  identities.clear();
  freed.clear();
  views.clear();
  hooked.clear();
  reached_.clear();
}

void Segment::ForgetUnlessSame() {
  if (known_divergences_ == graph.num_divergences()) return;
  known_divergences_ = graph.num_divergences();
  known_gradients_.clear();
  known_fingerprints_.clear();
}

ir::Values Segment::Gradients(const ir::Values& ys, const ir::Values& xs,
                              const ir::Values& cotangents) {
  ForgetUnlessSame();
  const ir::Graph::Position begin = graph.position();
  for (const KnownGradients& known : known_gradients_) {
    if (known.begin == begin && known.ys == ys && known.xs == xs &&
        known.cotangents == cotangents) {
      graph.Repeat(known.end);
      return known.gradients;
    }
  }
  ir::Values gradients = ir::Gradients(ys, xs, cotangents, &num_visited);
  ForgetUnlessSame();
  if (graph.status().ok()) {
    if (known_gradients_.size() >= kMaxKnown) known_gradients_.clear();
    known_gradients_.push_back({ys, xs, cotangents, gradients, begin, graph.position()});
  }
  return gradients;
}

ir::Hash128 Segment::Fingerprint() {
  ForgetUnlessSame();
  for (const KnownFingerprint& known : known_fingerprints_) {
    if (absl::MakeConstSpan(known.results) == graph.results()) return known.hash;
  }
  const ir::Hash128 hash = ir::Fingerprint(graph);
  if (known_fingerprints_.size() >= kMaxKnown) known_fingerprints_.clear();
  known_fingerprints_.push_back({{graph.results().begin(), graph.results().end()}, hash});
  return hash;
}

ir::Value Segment::Parameter(const std::shared_ptr<DeviceData>& contents) {
  if (!contents->lost.ok()) {
    graph.Fail(contents->lost);
    return ir::Value();
  }
  ir::Value& parameter = parameter_of[contents.get()];
  if (!parameter.valid()) {
    parameter = graph.Parameter(contents->buffer.type(), absl::StrCat("input ", parameters.size()));
    parameters.push_back(contents);
  }
  return parameter;
}

void Segment::AddIdentity(Identity identity) {
  ir::ExtendDependsOn(graph, reached_);
  ir::AddDependsOn(graph, identity.value, reached_);
  identities.push_back(std::move(identity));
}

const std::vector<bool>& Segment::Reached() {
  ir::ExtendDependsOn(graph, reached_);
  return reached_;
}

namespace {

// The value as another node, with its gradient.
ir::Value PassThrough(ir::Value value) {
  return ir::CustomGradient(
      {value}, [](ir::Graph&, const ir::Values& in) { return in; },
      [](ir::Graph&, const ir::BackwardIn& in) { return in.cotangents; })[0];
}

}  // namespace

Trace::Trace(const Device& device)
    : device_(device), segment_(std::make_shared<Segment>(CurrentNumReplicas())) {}

// ---- Values of tensors ----

ir::Value Trace::RootValue(TensorImpl& root) {
  if (root.segment == segment_) return root.value;
  if (root.data != nullptr) return segment_->Parameter(root.data);
  graph().Fail(absl::FailedPreconditionError(
      absl::StrCat("the tensor ", Describe(root),
                   " was recorded by another thread and has no "
                   "value yet; call xm::mark_step in that thread first")));
  return ir::Value();
}

bool Trace::IsOutdated(TensorImpl& view) {
  const TensorImpl& root = view.root();
  if (view.dtype == root.dtype && view.device == root.device) return false;
  graph().Fail(absl::FailedPreconditionError(
      absl::StrCat("the tensor ", Describe(view), " is a view of one that is ", Describe(root),
                   " by now; make the view again after Module::to")));
  return true;
}

ir::Value Trace::Plain(TensorImpl& impl) {
  if (impl.is_view() && IsOutdated(impl)) return ir::Value();
  // The views between the tensor and the nearest one whose value is known, or the root.
  std::vector<TensorImpl*> views;
  TensorImpl* at = &impl;
  for (; at->is_view() && !IsCurrent(at->plain, *at); at = at->parent.get()) views.push_back(at);
  ir::Value value;
  if (IsCurrent(at->plain, *at)) {
    value = at->plain.value;
  } else {
    value = RootValue(*at);
    if (at->history && at->segment == segment_) value = ir::StopGradient(value);
    KeepValue(at->plain, *at, value);
  }
  for (; !views.empty() && value.valid(); views.pop_back()) {
    at = views.back();
    value = ForwardOf(at->kind, value);
    KeepValue(at->plain, *at, value);
  }
  return value;
}

ir::Value Trace::Differentiable(TensorImpl& impl) {
  if (!impl.requires_grad()) return Plain(impl);
  if (impl.is_view() && IsOutdated(impl)) return ir::Value();
  // The views between the tensor and the nearest one whose value is known, a leaf, or the root. They
  // have its history, because the tensor has.
  std::vector<TensorImpl*> views;
  TensorImpl* at = &impl;
  while (at->is_view() && !at->leaf_requires_grad && !IsCurrent(at->differentiable, *at)) {
    views.push_back(at);
    at = at->parent.get();
  }
  ir::Value value;
  if (IsCurrent(at->differentiable, *at)) {
    value = at->differentiable.value;
  } else {
    if (at->leaf_requires_grad) {
      value = MakeIdentity(*at, Plain(*at));
    } else if (at->segment == segment_) {
      value = at->value;
    } else {
      value = MakeIdentity(*at, RootValue(*at));
    }
    KeepValue(at->differentiable, *at, value);
  }
  for (; !views.empty() && value.valid(); views.pop_back()) {
    at = views.back();
    const ir::Value parent = value;
    value = ForwardOf(at->kind, parent);
    if (value.valid() && value.node_id() == parent.node_id()) value = PassThrough(value);
    if (value.valid()) segment_->views[at] = {at->weak_from_this(), at->root().version, value};
    if (value.valid() && at->hooks != nullptr && at->hooks_version == at->root().version) {
      segment_->hooked.push_back({value, at->hooks});
    }
    KeepValue(at->differentiable, *at, value);
  }
  return value;
}

void Trace::KeepValue(TensorImpl::Cached& cached, TensorImpl& impl, ir::Value value) {
  if (value.valid()) cached = {segment_->serial, impl.root().version, value};
}

ir::Value Trace::MakeIdentity(TensorImpl& impl, ir::Value value) {
  Segment::Identity identity;
  identity.value = ir::StopGradient(value);
  identity.is_leaf = impl.leaf_requires_grad;
  if (!identity.value.valid()) return ir::Value();
  identity.tensor = impl.weak_from_this();
  identity.version = impl.root().version;
  if (!identity.is_leaf) {
    identity.origin = impl.origin;
    identity.origin_value = impl.origin_value;
    identity.freed = impl.freed;
  }
  segment_->AddIdentity(identity);
  return identity.value;
}

ir::Value Trace::Own(ir::Value value, int first_new) {
  if (!value.valid()) return value;
  if (!segment_->Reached()[value.node_id()]) {
    // No gradient goes on from here, but there is one with respect to the tensor.
    const ir::Value end = ir::StopGradient(value);
    Segment::Identity identity;
    identity.value = end;
    if (end.valid()) segment_->AddIdentity(std::move(identity));
    return end;
  }
  return value.node_id() < first_new ? PassThrough(value) : value;
}

ir::Value Trace::KeepHistory(ir::Value before, ir::Value value) {
  if (!before.valid() || !value.valid()) return ir::Value();
  const ir::Values both = ir::CustomGradient(
      {before, value}, [](ir::Graph&, const ir::Values& in) -> ir::Values { return {in[1]}; },
      [](ir::Graph&, const ir::BackwardIn& in) -> ir::Values {
        return {ir::SplatLike(in.cotangents[0], 0), in.cotangents[0]};
      });
  return both.empty() ? ir::Value() : both[0];
}

std::shared_ptr<TensorImpl> Trace::MakeRoot(ir::Value value, bool history, absl::string_view name) {
  auto root = std::make_shared<TensorImpl>();
  root->dtype = value.dtype();
  root->shape = value.shape();
  root->device = device_;
  root->name = std::string(name);
  root->segment = segment_;
  root->value = value;
  root->history = history && base::IsFloat(value.dtype());
  AddPending(root);
  return root;
}

void Trace::Assign(const std::shared_ptr<TensorImpl>& impl, ir::Value value, bool history) {
  const std::shared_ptr<TensorImpl>* at = &impl;
  for (; value.valid() && (*at)->is_view(); at = &(*at)->parent) {
    if ((*at)->detached) return AssignPlain(*at, history ? ir::StopGradient(value) : value);
    TensorImpl& parent = *(*at)->parent;
    const ir::Value before = Differentiable(parent);
    if (!before.valid()) return;
    const int first_new = graph().num_nodes();
    value = UpdateOf((*at)->kind, before, value);
    history = history || parent.requires_grad();
    if (history) value = Own(value, first_new);
  }
  if (value.valid()) SetRoot(*at, value, history);
}

void Trace::AssignPlain(const std::shared_ptr<TensorImpl>& impl, ir::Value value) {
  const std::shared_ptr<TensorImpl>* at = &impl;
  for (; value.valid() && (*at)->is_view(); at = &(*at)->parent) {
    const ir::Value before = Plain(*(*at)->parent);
    if (!before.valid()) return;
    value = UpdateOf((*at)->kind, before, value);
  }
  if (!value.valid()) return;
  const std::shared_ptr<TensorImpl>& root = *at;
  if (!root->history) return SetRoot(root, value, false);
  // The new contents with the old history.
  const ir::Values both = ir::CustomGradient(
      {Differentiable(*root), value},
      [](ir::Graph&, const ir::Values& in) -> ir::Values { return {in[1]}; },
      [](ir::Graph&, const ir::BackwardIn& in) -> ir::Values {
        return {in.cotangents[0], ir::Value()};
      });
  if (!both.empty()) SetRoot(root, both[0], true);
}

void Trace::Detach(TensorImpl& root) {
  root.leaf_requires_grad = false;
  if (!root.history) return;
  if (root.segment == segment_) root.value = ir::StopGradient(root.value);
  root.history = false;
  root.origin = nullptr;
  root.origin_value = ir::Value();
  root.freed = false;
  root.plain = root.differentiable = {};
}

void Trace::SetRoot(const std::shared_ptr<TensorImpl>& impl, ir::Value value, bool history) {
  TensorImpl& root = *impl;
  if (root.replaces == nullptr) root.replaces = std::move(root.data);
  root.data = nullptr;
  root.segment = segment_;
  root.value = value;
  root.history = history && base::IsFloat(root.dtype);
  root.origin = nullptr;
  root.origin_value = ir::Value();
  root.freed = false;
  ++root.version;
  AddPending(impl);
}

void Trace::AddPending(const std::shared_ptr<TensorImpl>& root) {
  if (root->pending == segment_->serial) return;
  root->pending = segment_->serial;
  pending_.push_back(root);
}

// ---- Execution ----

std::vector<std::shared_ptr<TensorImpl>> Trace::LivingTensors() {
  std::vector<std::shared_ptr<TensorImpl>> living;
  for (const std::weak_ptr<TensorImpl>& weak : pending_) {
    if (auto root = weak.lock(); root != nullptr && root->segment == segment_) {
      living.push_back(std::move(root));
    }
  }
  return living;
}

absl::Status Trace::MarkStep() {
  if (differentiations_ > 0) {
    return absl::FailedPreconditionError(
        "xm::mark_step was called in a hook of backward(), within a step; call it after "
        "backward()");
  }
  const auto living = LivingTensors();
  std::vector<TensorImpl*> wanted;
  for (const auto& root : living) {
    if (root->data == nullptr) wanted.push_back(root.get());
  }
  const Reach reach = Reach::Of(*segment_);
  // What the segment needs to be differentiated later stays.
  ir::Values kept;
  for (const auto& root : living) {
    if (IsKept(*root, reach)) kept.push_back(root->value);
  }
  std::vector<bool> donatable(segment_->parameters.size(), true);
  if (!kept.empty()) {
    const std::vector<bool> needed = Ancestors(graph(), kept);
    const auto parameters = graph().parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      donatable[i] = !needed[parameters[i].node_id()];
    }
  }
  const absl::Status status = RunStep(*segment_, device_, wanted, &donatable);
  Close(living, reach);
  return status;
}

absl::StatusOr<std::shared_ptr<DeviceData>> Trace::Materialize(
    const std::shared_ptr<TensorImpl>& impl) {
  TensorImpl& root = impl->root();
  if (!impl->is_view() && impl->data != nullptr) return impl->data;
  if (impl->view_data != nullptr && impl->view_data_version == root.version) {
    return impl->view_data;
  }
  if (!impl->is_view()) {
    if (impl->segment != segment_) {
      RootValue(*impl);  // records the error
      return graph().TakeStatus();
    }
    PENSTOCK_RETURN_IF_ERROR(RunStep(*segment_, device_, {impl.get()}, nullptr));
  } else {
    // A temporary root with the view's value.
    const ir::Value value = Plain(*impl);
    PENSTOCK_RETURN_IF_ERROR(graph().TakeStatus());
    TensorImpl copy;
    copy.dtype = impl->dtype;
    copy.shape = impl->shape;
    copy.device = device_;
    copy.segment = segment_;
    copy.value = value;
    PENSTOCK_RETURN_IF_ERROR(RunStep(*segment_, device_, {&copy}, nullptr));
    impl->view_data = std::move(copy.data);
    impl->view_data_version = root.version;
  }
  std::shared_ptr<DeviceData> contents = impl->is_view() ? impl->view_data : impl->data;
  // Temporaries of the expression that reads may still live.
  was_read_ = true;
  ++reads_;
  return contents;
}

void Trace::CloseIfDone() {
  // Differentiating a closed segment computes it again. A program that reads a loss before it
  // differentiates it is spared that; one that only reads must not record into one graph forever.
  constexpr int kManyReads = 8;
  was_read_ = false;
  const auto living = LivingTensors();
  const bool done = std::all_of(living.begin(), living.end(), [&](const auto& root) {
    return root->data != nullptr && (!root->history || reads_ >= kManyReads);
  });
  if (done) Close(living, Reach::Of(*segment_));
}

bool Trace::IsKept(const TensorImpl& root, const Reach& reach) {
  return root.history && reach.reached[root.value.node_id()] && !reach.broken[root.value.node_id()];
}

void Trace::Close(const std::vector<std::shared_ptr<TensorImpl>>& living, const Reach& reach) {
  std::vector<History> histories(living.size());
  for (size_t i = 0; i < living.size(); ++i) {
    const TensorImpl& root = *living[i];
    if (!root.history) continue;
    if (IsKept(root, reach)) {
      histories[i] = {segment_, root.value};
    } else if (reach.reached[root.value.node_id()]) {
      histories[i] = PartialHistory(*segment_, root, reach, living);
    }
  }
  for (size_t i = 0; i < living.size(); ++i) {
    const auto& root = living[i];
    if (root->segment == nullptr) continue;  // a second time in the list
    root->replaces = nullptr;
    root->predecessor = nullptr;
    if (root->history) {
      if (histories[i].segment != nullptr) {
        root->origin = histories[i].segment;
        root->origin_value = histories[i].value;
      }
      root->freed = root->origin == nullptr && reach.reached[root->value.node_id()];
    }
    root->segment = nullptr;
    root->value = ir::Value();
  }
  pending_.clear();
  histories.clear();
  if (segment_.use_count() == 1 && segment_->graph.num_replicas() == CurrentNumReplicas()) {
    segment_->Restart();
  } else {
    segment_ = std::make_shared<Segment>(CurrentNumReplicas());
  }
  reads_ = 0;
}

// ---- Recorder ----

Recorder& Recorder::OfThread() {
  thread_local Recorder recorder;
  return recorder;
}

Trace& Recorder::TraceOf(const Device& device) {
  std::unique_ptr<Trace>& trace = traces_[{device.client().get(), device.index()}];
  if (trace == nullptr) trace = std::make_unique<Trace>(device);
  return *trace;
}

std::vector<Trace*> Recorder::traces() {
  std::vector<Trace*> all;
  for (const auto& [device, trace] : traces_) all.push_back(trace.get());
  return all;
}

void Recorder::Fail(const absl::Status& error) {
  if (error_.ok()) error_ = error;
}

}  // namespace penstock::lazy
