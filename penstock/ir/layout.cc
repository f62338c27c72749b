#include "penstock/ir/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "absl/strings/string_view.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

// A layout: axis i of the physical value is axis layout[i] of the written one. Empty: the same.
using Layout = std::vector<int64_t>;

Layout Full(const Layout& layout, int rank) {
  if (!layout.empty()) return layout;
  Layout same(rank);
  std::iota(same.begin(), same.end(), 0);
  return same;
}

// Empty if it is the identity.
Layout Shortened(Layout layout) {
  for (size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] != static_cast<int64_t>(i)) return layout;
  }
  return {};
}

Layout Inverse(const Layout& layout) {
  Layout inverse(layout.size());
  for (size_t i = 0; i < layout.size(); ++i) inverse[layout[i]] = static_cast<int64_t>(i);
  return inverse;
}

// A list with an entry for each written axis, in the order of the physical axes.
Ints Permuted(const Ints& list, const Layout& layout) {
  if (layout.empty()) return list;
  Ints out;
  for (int64_t axis : layout) out.push_back(list[axis]);
  return out;
}

Shape Permuted(const Shape& shape, const Layout& layout) {
  return Shape(Permuted(ListOf(shape), layout));
}

// Whether axes with more than one element keep their order, so that the elements do.
bool KeepsOrder(const Shape& shape, const Layout& permutation) {
  int64_t last = -1;
  for (int64_t axis : permutation) {
    if (shape.dim(static_cast<int>(axis)) == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// The layouts of the operands and of the result of a convolution or a gradient of one.
struct ConvolutionLayouts {
  Layout operands[2], result;
};

bool IsKernelGradient(const Node& node) {
  return absl::string_view(node.op->name) == "penstock.convolution_kernel_gradient";
}

std::optional<ConvolutionLayouts> LayoutsOfConvolution(const Node& node) {
  const absl::string_view name = node.op->name;
  const bool forward = name == "stablehlo.convolution",
             input_gradient = name == "penstock.convolution_input_gradient",
             kernel_gradient = IsKernelGradient(node);
  if (!forward && !input_gradient && !kernel_gradient) return std::nullopt;
  const auto layout = [&](const char* which, bool kernel) {
    const Ints& flat = node.attributes.Get<Ints>(which);  // batch, feature (or in, out), spatial
    Layout out(flat.begin() + 2, flat.end());
    if (kernel) out.push_back(flat[0]);
    if (!kernel) out.insert(out.begin(), flat[0]);
    out.push_back(flat[1]);
    return Shortened(out);
  };
  const Layout input = layout("input", false), kernel = layout("kernel", true),
               output = layout("output", false);
  if (forward) return ConvolutionLayouts{{input, kernel}, output};
  if (input_gradient) return ConvolutionLayouts{{output, kernel}, input};
  return ConvolutionLayouts{{input, output}, kernel};
}

// How an operation whose attributes name axes is computed in another layout.
struct Movable {
  absl::string_view name;
  // Operands that have the layout, the others have the written one. Empty: all.
  std::vector<int> operands = {};
  std::vector<absl::string_view> lists = {};  // attributes with an entry for each axis
  std::vector<absl::string_view> axes = {};   // attributes that are lists of axes
  std::vector<absl::string_view> axis = {};   // attributes that are an axis
  bool is_window = false;                     // the order of axes with windows matters
  bool is_normalization = false;              // axis 0 is the batch
};

const std::vector<Movable>& MovableOps() {
  static const auto& ops = *new std::vector<Movable>{
      {.name = "stablehlo.reduce_window",
       .operands = {0},
       .lists = {"size", "strides", "dilation", "low", "high"}},
      {.name = "penstock.reduce_window_gradient",
       .lists = {"size", "strides", "dilation", "low", "high"},
       .is_window = true},
      {.name = "stablehlo.pad", .operands = {0}, .lists = {"low", "high", "interior"}},
      {.name = "stablehlo.slice", .operands = {0}, .lists = {"begin", "end", "strides"}},
      {.name = "stablehlo.reverse", .operands = {0}, .axes = {"axes"}},
      {.name = "stablehlo.concatenate", .axis = {"axis"}},
      {.name = "penstock.batch_norm_training",
       .operands = {0},
       .axis = {"axis"},
       .is_normalization = true},
      {.name = "penstock.batch_norm_gradient",
       .operands = {0, 4},
       .axis = {"axis"},
       .is_normalization = true}};
  return ops;
}

const Movable* FindMovable(const Node& node) {
  for (const Movable& op : MovableOps()) {
    if (op.name == node.op->name) return &op;
  }
  return nullptr;
}

// Whether results and operands have one shape and the operation treats all elements alike.
bool IsUniform(const Node& node) {
  if (!IsElementwise(node)) return false;
  return std::all_of(node.operands.begin(), node.operands.end(), [&](const Value& operand) {
    return operand.shape() == node.results[0].shape;
  });
}

bool IsSplat(const Node& node) {
  return absl::string_view(node.op->name) == "stablehlo.constant" && node.attributes.Has("shape");
}

class LayoutPass {
 public:
  explicit LayoutPass(const Graph& from)
      : from_(from), to_(std::make_unique<Graph>(from.name(), from.num_replicas())) {}

  std::unique_ptr<Graph> Run() {
    if (!from_.status().ok()) {
      to_->Fail(from_.status());
      return std::move(to_);
    }
    const int nodes = from_.num_nodes();
    places_.resize(nodes);
    FindWishes();
    for (size_t i = 0; i < from_.parameters().size(); ++i) {
      const Value& old = from_.parameters()[i];
      const Scope scope(*to_, from_.origins()[old.node().origin]);
      places_[old.node_id()] = {{to_->Parameter(old.type(), from_.parameter_names()[i]), {}}};
    }
    for (int id = 0; id < nodes && to_->status().ok(); ++id) {
      if (!needed_[id] || !places_[id].empty() || IsAlias(from_.node(id))) continue;
      const Scope scope(*to_, from_.origins()[from_.node(id).origin]);
      Visit(id);
    }
    Values results;
    for (const Value& result : from_.results()) {
      if (!to_->status().ok()) break;
      results.push_back(In(result, {}));
    }
    if (to_->status().ok()) to_->SetResults(results, from_.result_names());
    return std::move(to_);
  }

 private:
  // A value of the new graph: the old one in this layout. Invalid for values that are made in the
  // layout in which they are read.
  struct Place {
    Value value;
    Layout layout;
  };

  // ---- The old graph ----

  // Operations that pass an operand through.
  static bool IsAlias(const Node& node) {
    const absl::string_view name = node.op->name;
    return name == "penstock.stop_gradient" || name == "penstock.custom_gradient" ||
           name == "penstock.rematerialize";
  }

  Value Source(Value value) const {
    while (IsAlias(value.node())) {
      const Node& node = value.node();
      const size_t first = node.attributes.Has("inputs")
                               ? static_cast<size_t>(node.attributes.Get<int64_t>("inputs"))
                               : 0;
      value = node.operands[first + value.result()];
    }
    return value;
  }

  // Values that cost the same in every layout.
  static bool IsFlexible(const Node& node) {
    const absl::string_view name = node.op->name;
    return IsSplat(node) || name == "stablehlo.iota" || name == "stablehlo.broadcast_in_dim";
  }

  // Which nodes are needed, and in which layout a convolution downstream would like their result.
  void FindWishes() {
    needed_.resize(from_.num_nodes());
    wishes_.resize(from_.num_nodes());
    for (const Value& result : from_.results()) needed_[Source(result).node_id()] = true;
    for (int id = from_.num_nodes(); id-- > 0;) {
      if (!needed_[id]) continue;
      const Node& node = from_.node(id);
      const auto layouts = LayoutsOfConvolution(node);
      const bool passes = IsUniform(node) || FindMovable(node) != nullptr;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const Value source = Source(node.operands[i]);
        needed_[source.node_id()] = true;
        std::optional<Layout>& wish = wishes_[source.node_id()];
        if (wish.has_value()) continue;
        if (layouts.has_value()) wish = layouts->operands[i];
        if (passes && source.rank() == node.results[0].shape.rank()) wish = wishes_[id];
      }
    }
  }

  // ---- The new graph ----

  // The old value in a layout.
  Value In(const Value& written, const Layout& layout) {
    if (!to_->status().ok()) return Value();
    const Value old = Source(written);
    const auto key = std::tuple(old.node_id(), old.result(), layout);
    if (const auto at = made_.find(key); at != made_.end()) return at->second;
    const Node& node = old.node();
    Value value;
    if (IsFlexible(node)) {
      const Scope scope(*to_, from_.origins()[node.origin]);
      value = MakeFlexible(node, layout);
    } else {
      const Place& place = places_[old.node_id()][old.result()];
      value = Moved(place.value, place.layout, layout);
    }
    made_[key] = value;
    return value;
  }

  static Value Moved(Value value, const Layout& from, const Layout& to) {
    if (from == to || !value.valid()) return value;
    const int rank = value.rank();
    const Layout inverse = Inverse(Full(from, rank));
    Layout permutation;
    for (int64_t axis : Full(to, rank)) permutation.push_back(inverse[axis]);
    if (KeepsOrder(value.shape(), permutation)) {
      return Reshape(value, Permuted(value.shape(), permutation));
    }
    return Transpose(value, permutation);
  }

  Value MakeFlexible(const Node& node, const Layout& layout) {
    const Shape& shape = node.results[0].shape;
    if (absl::string_view(node.op->name) == "stablehlo.broadcast_in_dim") {
      return MakeBroadcast(node, layout);
    }
    Attributes attributes = node.attributes;
    attributes.Set("shape", Permuted(ListOf(shape), layout));
    if (attributes.Has("axis") && !layout.empty()) {
      attributes.Set("axis", Inverse(layout)[attributes.Get<int64_t>("axis")]);
    }
    const Values made = to_->Emit(*node.op, {}, std::move(attributes));
    return made.empty() ? Value() : made[0];
  }

  // The extents of more than one element.
  static Ints LongAxes(const Shape& shape) {
    Ints extents;
    for (int64_t extent : shape) {
      if (extent != 1) extents.push_back(extent);
    }
    return extents;
  }

  // The operand, or what reshapes that only add axes of extent 1 made it from.
  Value SourceOfBroadcast(const Node& node) const {
    Value source = node.operands[0];
    const Ints extents = LongAxes(source.shape());
    while (absl::string_view(Source(source).node().op->name) == "stablehlo.reshape") {
      const Value inner = Source(Source(source).node().operands[0]);
      if (LongAxes(inner.shape()) != extents || IsUnvisited(inner)) break;
      source = inner;
    }
    return source;
  }

  // The operand's axes of more than one element, spread over the axes of the result.
  Value MakeBroadcast(const Node& node, const Layout& layout) {
    const Shape& shape = node.results[0].shape;
    const Layout inverse = Inverse(Full(layout, shape.rank()));
    const Ints& targets = node.attributes.Get<Ints>("axes");  // by axis of the operand
    std::vector<std::pair<int64_t, int>> kept;  // physical axis of the result, operand's axis
    for (int i = 0; i < node.operands[0].rank(); ++i) {
      if (node.operands[0].shape().dim(i) != 1) kept.push_back({inverse[targets[i]], i});
    }
    const Ints extents = LongAxes(node.operands[0].shape());
    Value vector = Reshape(In(SourceOfBroadcast(node), {}), Shape(extents));
    Layout order(kept.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return kept[a].first < kept[b].first; });
    if (!Shortened(order).empty()) vector = Transpose(vector, order);
    Axes axes;
    for (int64_t i : order) axes.push_back(kept[i].first);
    return BroadcastInDim(vector, Permuted(shape, layout), axes);
  }

  // Broadcasts may be a long chain. Where one is visited, that from which it will be made is made, so
  // that MakeBroadcast need not walk down the chain by recursion.
  void PrepareBroadcast(const Node& node) {
    if (absl::string_view(node.op->name) != "stablehlo.broadcast_in_dim") return;
    const Value source = Source(SourceOfBroadcast(node));
    if (IsFlexible(source.node())) In(source, {});
  }

  bool IsUnvisited(const Value& value) const {
    return !IsFlexible(value.node()) && places_[value.node_id()].empty();
  }

  // The layout in which an operation on these operands is computed: that which most of them have,
  // without transposing if possible.
  Layout Choose(int id, const std::vector<int>& operands) const {
    const Node& node = from_.node(id);
    std::vector<Layout> found;
    for (int i : operands) {
      const Value source = Source(node.operands[i]);
      if (IsFlexible(source.node())) continue;
      const Layout& layout = places_[source.node_id()][source.result()].layout;
      if (std::find(found.begin(), found.end(), layout) == found.end()) found.push_back(layout);
    }
    if (found.empty()) return wishes_[id].value_or(Layout());
    if (found.size() == 1) return found[0];
    const auto has = [&](const Layout& layout) {
      return std::find(found.begin(), found.end(), layout) != found.end();
    };
    if (wishes_[id].has_value() && has(*wishes_[id])) return *wishes_[id];
    return has({}) ? Layout() : found[0];
  }

  void Visit(int id) {
    const Node& node = from_.node(id);
    const absl::string_view name = node.op->name;
    if (IsFlexible(node)) {
      places_[id].resize(1);
      PrepareBroadcast(node);
    } else if (name == "stablehlo.transpose") {
      VisitTranspose(id);
    } else if (const auto layouts = LayoutsOfConvolution(node); layouts.has_value()) {
      VisitConvolution(id, *layouts);
    } else if (IsUniform(node) && !node.operands.empty()) {
      VisitUniform(id);
    } else if (name == "stablehlo.reduce") {
      VisitReduce(id);
    } else if (const Movable* op = FindMovable(node); op != nullptr) {
      VisitMovable(id, *op);
    } else {
      Values operands;
      for (const Value& operand : node.operands) operands.push_back(In(operand, {}));
      Emit(id, std::move(operands), node.attributes, {});
    }
  }

  // Emits the node with these operands; result 0 has the layout, the others the written one.
  void Emit(int id, Values operands, Attributes attributes, const Layout& layout) {
    const Node& node = from_.node(id);
    const Values results =
        to_->Emit(*node.op, std::move(operands), std::move(attributes), node.regions);
    for (const Value& result : results) {
      places_[id].push_back({result, places_[id].empty() ? layout : Layout()});
    }
  }

  void VisitTranspose(int id) {
    const Node& node = from_.node(id);
    const Value source = Source(node.operands[0]);
    const Layout inverse = Inverse(node.attributes.Get<Ints>("permutation"));
    const bool flexible = IsFlexible(source.node());
    const Place place =
        flexible ? Place{In(source, {}), {}} : places_[source.node_id()][source.result()];
    Layout layout;
    for (int64_t axis : Full(place.layout, source.rank())) layout.push_back(inverse[axis]);
    places_[id] = {{place.value, Shortened(layout)}};
  }

  void VisitConvolution(int id, const ConvolutionLayouts& layouts) {
    const Node& node = from_.node(id);
    const int64_t rank = node.results[0].shape.rank();
    Ints activations{0, rank - 1}, kernel{rank - 2, rank - 1};
    for (int64_t i = 0; i < rank - 2; ++i) {
      activations.push_back(i + 1);
      kernel.push_back(i);
    }
    Attributes attributes = node.attributes;
    attributes.Set("input", activations);
    attributes.Set("output", activations);
    attributes.Set("kernel", kernel);
    if (attributes.Has("shape")) {
      attributes.Set("shape", Permuted(ListOf(node.results[0].shape), layouts.result));
    }
    Emit(id, {In(node.operands[0], layouts.operands[0]), In(node.operands[1], layouts.operands[1])},
         std::move(attributes), layouts.result);
    if (IsKernelGradient(node) && !layouts.result.empty() && !places_[id].empty()) {
      places_[id] = {{Moved(places_[id][0].value, layouts.result, {}), {}}};
    }
  }

  static std::vector<int> AllOperands(const Node& node) {
    std::vector<int> all(node.operands.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void VisitUniform(int id) {
    const Node& node = from_.node(id);
    const Layout layout = Choose(id, AllOperands(node));
    Values operands;
    for (const Value& operand : node.operands) operands.push_back(In(operand, layout));
    Emit(id, std::move(operands), node.attributes, layout);
  }

  void VisitReduce(int id) {
    const Node& node = from_.node(id);
    const int rank = node.operands[0].rank();
    // A wish is for the result, which has fewer axes than the operand.
    const bool is_flexible = IsFlexible(Source(node.operands[0]).node());
    const Layout layout = is_flexible ? Layout() : Choose(id, {0}),
                 inverse = Inverse(Full(layout, rank));
    const Ints& written = node.attributes.Get<Ints>("axes");
    Ints axes;
    for (int64_t axis : written) axes.push_back(inverse[axis]);
    std::sort(axes.begin(), axes.end());
    // The axes of the result: those that are left, in their physical order.
    const auto is_reduced = [&](int64_t axis) {
      return std::find(written.begin(), written.end(), axis) != written.end();
    };
    Layout left;
    for (int64_t axis : Full(layout, rank)) {
      if (is_reduced(axis)) continue;
      int64_t place = 0;
      for (int64_t before = 0; before < axis; ++before) place += !is_reduced(before);
      left.push_back(place);
    }
    Attributes attributes = node.attributes;
    attributes.Set("axes", axes);
    Emit(id, {In(node.operands[0], layout)}, std::move(attributes), Shortened(left));
  }

  // Whether the operation can be computed in this layout.
  static bool Fits(const Node& node, const Movable& op, const Layout& layout) {
    if (op.is_normalization) {
      return layout[0] == 0;
    }
    if (!op.is_window) return true;
    const Ints& size = node.attributes.Get<Ints>("size");
    int64_t last = -1;
    for (int64_t axis : layout) {
      if (size[axis] == 1) continue;
      if (axis < last) return false;
      last = axis;
    }
    return true;
  }

  void VisitMovable(int id, const Movable& op) {
    const Node& node = from_.node(id);
    const std::vector<int> movable = op.operands.empty() ? AllOperands(node) : op.operands;
    Layout layout = Choose(id, movable);
    if (!layout.empty() && !Fits(node, op, layout)) layout = {};
    Values operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const bool moves = std::find(movable.begin(), movable.end(), i) != movable.end();
      operands.push_back(In(node.operands[i], moves ? layout : Layout()));
    }
    Attributes attributes = node.attributes;
    if (!layout.empty()) {
      const Layout inverse = Inverse(layout);
      for (absl::string_view name : op.lists) {
        attributes.Set(name, Permuted(node.attributes.Get<Ints>(name), layout));
      }
      for (absl::string_view name : op.axes) {
        Ints axes;
        for (int64_t axis : node.attributes.Get<Ints>(name)) axes.push_back(inverse[axis]);
        attributes.Set(name, axes);
      }
      for (absl::string_view name : op.axis) {
        attributes.Set(name, inverse[node.attributes.Get<int64_t>(name)]);
      }
    }
    Emit(id, std::move(operands), std::move(attributes), layout);
  }

  const Graph& from_;
  std::unique_ptr<Graph> to_;
  std::vector<bool> needed_;                   // by node
  std::vector<std::optional<Layout>> wishes_;  // by node, for result 0
  std::vector<std::vector<Place>> places_;     // by node and result
  std::map<std::tuple<int, int, Layout>, Value> made_;
};

}  // namespace

std::unique_ptr<Graph> ChannelsLast(const Graph& graph) { return LayoutPass(graph).Run(); }

}  // namespace penstock::ir
