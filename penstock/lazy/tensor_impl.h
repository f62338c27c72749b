// TensorImpl: what Tensors refer to. Internal to the room.
//
// A tensor's contents are a storage's: the tensor is the storage itself (a root), or a view of
// another tensor. A root has its contents as a buffer on the device, as a value of the graph that
// its thread records (the open segment), or as both.
//
// Gradients. A leaf that requires one appears in a graph as a node that it shares with nothing, its
// identity (stop_gradient of its contents): by it ir::Gradients finds the leaf. Invariant: the
// value of a tensor that does not require a gradient depends on no identity differentiably. So
// there are two values of a tensor that requires a gradient: the differentiable one, and the plain
// one for no_grad, detach and the optimizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "penstock/lazy/tensor.h"
#include "penstock/lazy/view_kind.h"

namespace penstock::lazy {

struct Segment;
struct TensorHooks;  // hooks.cc

// A tensor's memory on a device. Roots of equal contents share it; it is donated to a program only
// if nothing else refers to it.
struct DeviceData {
  runtime::Buffer buffer;
  absl::Status lost;  // why the contents are gone; OK if they are not
};

class TensorImpl : public std::enable_shared_from_this<TensorImpl> {
 public:
  // A value of the open segment with that serial number, for contents of that version.
  struct Cached {
    uint64_t segment = 0, version = 0;
    ir::Value value;
  };

  DType dtype = DType::kInvalid;
  Shape shape;
  Device device;
  std::string name;  // of the operation that made it, for errors

  // ---- A root ----
  std::shared_ptr<DeviceData> data;      // the contents, unless they were only recorded
  std::shared_ptr<DeviceData> replaces;  // the contents before the open segment replaced them
  // The contents, before the open segment, of the tensor whose place this one takes (Succeed): it
  // gets them if the segment's step fails. Their memory is not donated to this tensor's contents,
  // so they outlive an execution that fails, too.
  std::shared_ptr<DeviceData> predecessor;
  std::shared_ptr<Segment> segment;  // the open segment of `value`; null: the contents are `data`
  ir::Value value;                   // differentiable if `history`
  uint64_t version = 0;              // counts replacements of the contents
  // Whether the contents depend on a leaf that requires a gradient (a non-leaf tensor).
  bool history = false;
  // Where the history is if the contents are `data`: a segment that was executed. Null: it leads to
  // no leaf, or it was differentiated already without retain_graph (`freed`).
  std::shared_ptr<Segment> origin;
  ir::Value origin_value;
  bool freed = false;
  uint64_t pending = 0;  // the serial of the segment in whose trace's list it is

  // ---- A view ----
  std::shared_ptr<TensorImpl> parent;  // the tensor that this is a view of
  ViewKind kind;
  bool detached = false;                  // without the parent's history
  bool whole = false;                     // of all elements of the parent, in its shape
  std::shared_ptr<DeviceData> view_data;  // a copy of the contents, for reads
  uint64_t view_data_version = 0;

  // ---- Both ----
  bool leaf_requires_grad = false;  // a leaf by requires_grad_()
  std::shared_ptr<TensorImpl> grad;
  // What is called with the gradient: of a leaf, and of a view whose contents have that version.
  // Those of other tensors belong to their value (Segment::hooks).
  std::shared_ptr<TensorHooks> hooks;
  uint64_t hooks_version = 0;
  Cached plain, differentiable;

  TensorImpl() = default;
  ~TensorImpl();
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;

  // Makes this a view of a tensor, before anything is done with it.
  void SetParent(std::shared_ptr<TensorImpl> of);
  // Makes a view of a view that nothing else refers to a view of that one's parent, if it can be.
  void MergeWithParent();

  bool is_view() const { return parent != nullptr; }
  TensorImpl& root() { return is_view() ? *view_root_ : *this; }
  bool requires_grad() const;
  bool is_leaf() const { return leaf_requires_grad || !requires_grad(); }
  ir::TensorType type() const { return {dtype, shape}; }

 private:
  TensorImpl* view_root_ = nullptr;  // of a view; its parents keep it
};

// Releases what a destructor owns. Histories and views are chains that may have a million links, of
// which each owns the next, and a destructor that called the next one's would need a million stack
// frames: a call within another one's destructor leaves the work to that one's loop.
void ReleaseInLoop(std::shared_ptr<void> owned);

// "f32[32,10] on xla:0"
std::string Describe(const TensorImpl& impl);

}  // namespace penstock::lazy
