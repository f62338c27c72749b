#include "penstock/ir/gradients.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"

namespace penstock::ir {
namespace {

Value AddInto(Value sum, Value addend) {
  const Node& node = addend.node();
  Values operands = node.operands;
  for (Value& v : operands) {
    if (base::IsFloat(v.dtype())) v = Convert(v, sum.dtype());
  }
  operands[0] = sum;
  return EmitOne(*node.op, std::move(operands), node.attributes);
}

// Whether a node's results depend on some x differentiably, if its operands depend on one as
// `depends` of their nodes says.
template <typename Depends>
bool TakesPart(const Node& node, const Depends& depends) {
  if (node.op->gradient == nullptr && node.op->zero_gradient) return false;
  return std::any_of(node.operands.begin(), node.operands.end(), [&](const Value& v) {
    return depends(v.node_id()) && IsDifferentiable(v.type());
  });
}

// By node, from the first node of `xs` to `last`: whether its results depend on one of them.
class Dependents {
 public:
  Dependents(const Graph& graph, absl::Span<const Value> xs, int last) : first_(last + 1) {
    for (const Value& x : xs) first_ = std::min(first_, x.node_id());
    depends_.resize(static_cast<size_t>(last + 1 - first_));
    for (const Value& x : xs) {
      if (x.node_id() <= last) depends_[x.node_id() - first_] = true;
    }
    for (int id = first_; id <= last; ++id) {
      if (!(*this)(id)) depends_[id - first_] = TakesPart(graph.node(id), *this);
    }
  }

  int first() const { return first_; }
  int end() const { return first_ + static_cast<int>(depends_.size()); }
  bool operator()(int id) const { return id >= first_ && id < end() && depends_[id - first_]; }

 private:
  int first_;
  std::vector<bool> depends_;
};

// Looks at no node outside of those from the first x to the last y: a graph may be differentiated
// in many small parts, each in a place of its own (room lazy).
class Backward {
 public:
  Backward(Graph& graph, absl::Span<const Value> ys, absl::Span<const Value> xs,
           const Intercept* intercept)
      : graph_(graph), depends_(graph, xs, LastNode(ys)), intercept_(intercept) {}

  int64_t num_visited() const { return depends_.end() - depends_.first(); }

  // Adds to the cotangent of a value, if the value depends on an x.
  void Add(const Value& value, const Value& cotangent) {
    if (!cotangent.valid() || !depends_(value.node_id()) || !IsDifferentiable(value.type())) return;
    Value& sum = Cotangent(value);
    sum = sum.valid() ? AddCotangent(sum, cotangent) : cotangent;
  }

  Value& Cotangent(const Value& value) {
    Values& of_node = cotangents_[value.node_id()];
    if (of_node.empty()) of_node.resize(value.node().results.size());
    return of_node[value.result()];
  }

  // Visits the nodes in reverse order. Nodes added by the gradient itself are not visited.
  void Run() {
    for (int id = depends_.end(); id-- > depends_.first() && graph_.status().ok();) {
      const auto found = cotangents_.find(id);
      if (found == cotangents_.end()) continue;
      if (intercept_ != nullptr && !Replace(id, found->second)) return;
      // The traversal stops at an x, unless it depends on another x.
      if (TakesPart(graph_.node(id), depends_)) Visit(id, found->second);
    }
  }

 private:
  static int LastNode(absl::Span<const Value> values) {
    int last = -1;
    for (const Value& value : values) last = std::max(last, value.node_id());
    return last;
  }

  // Replaces the cotangents of a node that are intercepted; false after an error.
  bool Replace(int id, Values& cotangents) {
    for (size_t i = 0; i < intercept_->values.size(); ++i) {
      const Value& value = intercept_->values[i];
      if (value.node_id() != id || !cotangents[value.result()].valid()) continue;
      const Value replaced = intercept_->replace(i, cotangents[value.result()]);
      if (!graph_.status().ok()) return false;
      if (!replaced.valid() || !(replaced.type() == value.type())) {
        graph_.Fail(absl::InvalidArgumentError(
            absl::StrCat("the gradient of ", value.type().ToString(), " was replaced by ",
                         replaced.valid() ? replaced.type().ToString() : "nothing")));
        return false;
      }
      cotangents[value.result()] = replaced;
    }
    return true;
  }

  void Visit(int id, const Values& cotangents) {
    const Node& node = graph_.node(id);
    Scope scope(graph_, node.origin);
    if (node.op->gradient == nullptr) {
      graph_.Fail(OpError(node, "has no gradient; use StopGradient where no gradient should flow"));
      return;
    }
    GradientArgs args{.node = node, .results = {}, .cotangents = cotangents};
    for (size_t i = 0; i < node.results.size(); ++i)
      args.results.push_back(graph_.value(id, static_cast<int>(i)));
    for (const Value& v : node.operands)
      args.wanted.push_back(depends_(v.node_id()) && IsDifferentiable(v.type()));
    const Values of_operands = node.op->gradient(args);
    if (!graph_.status().ok()) return;
    PENSTOCK_CHECK(of_operands.size() == node.operands.size());
    for (size_t i = 0; i < of_operands.size(); ++i) {
      const TensorType& expected = node.operands[i].type();
      if (of_operands[i].valid() && !(of_operands[i].type() == expected)) {
        graph_.Fail(absl::InternalError(absl::StrCat(
            "the gradient of ", node.op->name, " returns ", of_operands[i].type().ToString(),
            " for operand ", i, ", which is ", expected.ToString(), " (a bug in Penstock)")));
        return;
      }
      Add(node.operands[i], of_operands[i]);
    }
  }

  Graph& graph_;
  const Dependents depends_;
  const Intercept* const intercept_;  // may be null
  absl::flat_hash_map<int, Values> cotangents_;
};

auto In(const std::vector<bool>& depends) {
  return [&](int id) { return depends[id]; };
}

}  // namespace

std::vector<bool> DependsOn(const Graph& graph, absl::Span<const Value> xs) {
  std::vector<bool> depends(static_cast<size_t>(graph.num_nodes()));
  int first = graph.num_nodes();
  for (const Value& x : xs) {
    depends[x.node_id()] = true;
    first = std::min(first, x.node_id());
  }
  for (int id = first; id < graph.num_nodes(); ++id) {
    depends[id] = depends[id] || TakesPart(graph.node(id), In(depends));
  }
  return depends;
}

void ExtendDependsOn(const Graph& graph, std::vector<bool>& depends) {
  for (int id = static_cast<int>(depends.size()); id < graph.num_nodes(); ++id) {
    depends.push_back(TakesPart(graph.node(id), In(depends)));
  }
}

void AddDependsOn(const Graph& graph, Value x, std::vector<bool>& depends) {
  if (depends[x.node_id()]) return;
  depends[x.node_id()] = true;
  for (int id = x.node_id() + 1; id < graph.num_nodes(); ++id) {
    depends[id] = depends[id] || TakesPart(graph.node(id), In(depends));
  }
}

Value AddCotangent(Value sum, Value addend) {
  const auto is_sparse = [](const Value& v) {
    return v.node().op->adds_to_operand && IsZeros(v.node().operands[0]);
  };
  if (!sum.valid() || !addend.valid()) return Value();
  if (is_sparse(addend)) return AddInto(sum, addend);
  if (is_sparse(sum) && sum.dtype() == addend.dtype()) return AddInto(addend, sum);
  if (IsZeros(addend)) return sum;
  return Add(sum, Convert(addend, sum.dtype()));
}

std::vector<Value> Gradients(Value y, absl::Span<const Value> xs, Value cotangent) {
  if (!y.valid()) return Values(xs.size());
  if (!cotangent.valid()) {
    if (y.rank() != 0 || !IsDifferentiable(y.type())) {
      y.graph()->Fail(absl::InvalidArgumentError(
          absl::StrCat("the gradient of ", y.type().ToString(),
                       " needs a cotangent, because it is not a float scalar")));
      return Values(xs.size());
    }
    cotangent = SplatLike(y, 1);
  }
  return Gradients(absl::MakeConstSpan(&y, 1), xs, absl::MakeConstSpan(&cotangent, 1));
}

namespace {

Values GradientsOf(absl::Span<const Value> ys, absl::Span<const Value> xs,
                   absl::Span<const Value> cotangents, int64_t* num_visited,
                   const Intercept* intercept) {
  Values gradients(xs.size());
  Graph* graph = nullptr;
  for (const Value& y : ys) {
    if (y.valid()) graph = y.graph();
  }
  if (graph != nullptr && ys.size() != cotangents.size()) {
    graph->Fail(absl::InvalidArgumentError(
        absl::StrCat("gradients: ", ys.size(), " values have ", cotangents.size(), " cotangents")));
  }
  const bool all_valid =
      std::all_of(xs.begin(), xs.end(), [](const Value& x) { return x.valid(); });
  if (graph == nullptr || !graph->status().ok() || !all_valid) return gradients;
  for (size_t i = 0; i < ys.size(); ++i) {
    if (cotangents[i].valid() && !(cotangents[i].type() == ys[i].type())) {
      graph->Fail(absl::InvalidArgumentError(absl::StrCat(
          "the cotangent of ", ys[i].type().ToString(), " is ", cotangents[i].type().ToString())));
      return gradients;
    }
  }
  Backward backward(*graph, ys, xs, intercept);
  if (num_visited != nullptr) *num_visited += backward.num_visited();
  for (size_t i = 0; i < ys.size(); ++i) backward.Add(ys[i], cotangents[i]);
  backward.Run();
  if (!graph->status().ok()) return gradients;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!IsDifferentiable(xs[i].type())) continue;
    gradients[i] = backward.Cotangent(xs[i]);
    if (!gradients[i].valid()) gradients[i] = SplatLike(xs[i], 0);
  }
  return gradients;
}

}  // namespace

std::vector<Value> Gradients(absl::Span<const Value> ys, absl::Span<const Value> xs,
                             absl::Span<const Value> cotangents, int64_t* num_visited) {
  return GradientsOf(ys, xs, cotangents, num_visited, nullptr);
}

std::vector<Value> Gradients(absl::Span<const Value> ys, absl::Span<const Value> xs,
                             absl::Span<const Value> cotangents, const Intercept& intercept) {
  return GradientsOf(ys, xs, cotangents, nullptr, &intercept);
}

}  // namespace penstock::ir
