// Random graphs of placeholders, variables, assignments and control dependencies, with random
// fetches and feeds, against a reference that follows the rules of graph.h on the host. Numbers are
// small integers, so that the values are equal exactly.
#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/base/testing/random_cases.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/control_flow.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace random_graph_test {
namespace {

using Vector = std::vector<float>;  // of one element: broadcast

enum class Kind { kFed, kConstant, kRead, kAdd, kMaximum, kSelect, kAssign, kAssignAdd, kGroup };

// What the reference knows of an operation.
struct Op {
  Kind kind = Kind::kConstant;
  std::vector<int> inputs = {}, control = {};
  int variable = -1;
  float constant = 0;
  Tensor tensor = {};
  Operation operation = {};
};

Vector Combine(const Vector& a, const Vector& b, float (*f)(float, float)) {
  Vector out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  }
  return out;
}
float Sum(float a, float b) { return a + b; }
float Larger(float a, float b) { return std::max(a, b); }
// Wrapped, so that sums stay exact.
Vector Wrapped(const Vector& a) {
  return Combine(a, {0}, [](float x, float) { return std::fmod(x, 64.0f); });
}

// The reference: values of one Run.
class Reference {
 public:
  Reference(const std::vector<Op>& ops, std::vector<Vector>& variables,
            const absl::flat_hash_map<int, Vector>& feeds)
      : ops_(ops), variables_(variables), start_(variables), feeds_(feeds) {}

  void Run(const std::vector<int>& fetches) {
    for (int fetch : fetches) {
      if (!feeds_.contains(fetch)) Need(fetch, needed_);
    }
    for (int id : needed_) Evaluate(id);
    for (const auto& [variable, values] : assigned_) variables_[variable] = values.back().second;
  }
  const Vector& ValueOf(int id) const {
    return feeds_.contains(id) ? feeds_.at(id) : values_.at(id);
  }

 private:
  void Need(int id, std::set<int>& needed) const {
    if (!needed.insert(id).second) return;
    for (int input : ops_[id].inputs) {
      if (!feeds_.contains(input)) Need(input, needed);
    }
    for (int before : ops_[id].control) Need(before, needed);
  }

  void Evaluate(int id) {
    const Op& op = ops_[id];
    const auto in = [&](int i) -> const Vector& { return ValueOf(op.inputs[i]); };
    Vector& value = values_[id];
    switch (op.kind) {
      case Kind::kFed:
      case Kind::kGroup:
        break;
      case Kind::kConstant:
        value = {op.constant};
        break;
      case Kind::kRead:
        value = ReadBefore(id);
        break;
      case Kind::kAdd:
        value = Wrapped(Combine(in(0), in(1), Sum));
        break;
      case Kind::kMaximum:
        value = Combine(in(0), in(1), Larger);
        break;
      case Kind::kSelect:
        value = in(0)[0] < in(1)[0] ? in(1) : Wrapped(Combine(in(0), in(1), Sum));
        break;
      case Kind::kAssign:
      case Kind::kAssignAdd: {
        auto& all = assigned_[op.variable];
        const Vector now = all.empty() ? start_[op.variable] : all.back().second;
        value = op.kind == Kind::kAssign ? in(0) : Combine(now, in(0), Sum);
        all.push_back({id, value});
        break;
      }
    }
  }

  // The value after the last assignment among the operations that this read depends on.
  Vector ReadBefore(int id) const {
    std::set<int> ancestors;
    Need(id, ancestors);
    Vector value = start_[ops_[id].variable];
    const auto found = assigned_.find(ops_[id].variable);
    if (found == assigned_.end()) return value;
    for (const auto& [assignment, after] : found->second) {
      if (ancestors.contains(assignment)) value = after;
    }
    return value;
  }

  const std::vector<Op>& ops_;
  std::vector<Vector>& variables_;
  const std::vector<Vector> start_;
  const absl::flat_hash_map<int, Vector>& feeds_;
  std::set<int> needed_;
  absl::flat_hash_map<int, Vector> values_;
  absl::flat_hash_map<int, std::vector<std::pair<int, Vector>>> assigned_;
};

// Builds a random graph. Vectors have the extent of the placeholders, which is fed; variables and
// their assigned values are scalars.
class RandomGraph {
 public:
  explicit RandomGraph(base::Random& random) : random_(random) {
    for (int i = 0; i < 2; ++i) {
      variables_.push_back(Variable(Array::Scalar(static_cast<float>(i)), "v"));
      start_.push_back({static_cast<float>(i)});
    }
    for (int i = 0; i < 2; ++i) {
      Op op{.kind = Kind::kFed};
      op.tensor = Placeholder(DType::kF32, {-1}, "x");
      Add(op);
    }
    for (int i = 0; i < 3; ++i) {
      Op op{.kind = Kind::kConstant, .constant = static_cast<float>(random.Below(9))};
      op.tensor = Constant(op.constant);
      Add(op);
    }
    for (int i = 0; i < 18; ++i) AddRandom();
  }

  const std::vector<Op>& ops() const { return ops_; }
  std::vector<Vector>& start() { return start_; }
  const Variables& variables() const { return variables_; }
  bool IsScalar(int id) const { return ops_[id].tensor.shape() == PartialShape(Shape()); }

 private:
  void Add(Op op) {
    op.operation = op.operation.valid() ? op.operation : Operation(op.tensor);
    ops_.push_back(std::move(op));
  }
  int Pick(bool scalar) {
    for (;;) {
      const int id = static_cast<int>(random_.Below(ops_.size()));
      if (ops_[id].tensor.valid() && (!scalar || IsScalar(id))) return id;
    }
  }

  void AddRandom() {
    Op op;
    op.kind = static_cast<Kind>(2 + random_.Below(7));
    Operations before;
    while (random_.Below(3) == 0) {
      op.control.push_back(static_cast<int>(random_.Below(ops_.size())));
      before.push_back(ops_[op.control.back()].operation);
    }
    const ControlDependencies after(before);
    op.variable = static_cast<int>(random_.Below(variables_.size()));
    const Variable& variable = variables_[op.variable];
    const auto input = [&](bool scalar) {
      op.inputs.push_back(Pick(scalar));
      return ops_[op.inputs.back()].tensor;
    };
    switch (op.kind) {
      case Kind::kRead:
        op.tensor = variable.Value();
        // Without dependencies it is the variable itself.
        if (op.control.empty()) op.control = {};
        break;
      case Kind::kAdd: {
        const Tensor a = input(false), b = input(false);
        op.tensor = AddInScope(a, b);
        break;
      }
      case Kind::kMaximum: {
        const Tensor a = input(false), b = input(false);
        op.tensor = Maximum(a, b);
        break;
      }
      case Kind::kSelect: {
        const Tensor a = input(true), b = input(true);
        op.tensor = Cond(
            Less(a, b), [&] { return b; }, [&] { return AddInScope(a, b); });
        break;
      }
      case Kind::kAssign:
        op.tensor = Assign(variable, input(true));
        break;
      case Kind::kAssignAdd:
        op.tensor = AssignAdd(variable, input(true));
        break;
      default:
        op.kind = Kind::kGroup;
        op.operation = NoOp();
    }
    Add(op);
  }

  static Tensor AddInScope(const Tensor& a, const Tensor& b) {
    return AddOp("AddWrap", {a, b}, "", {}, [](const ir::Values& in) {
      const ir::Value sum = in[0] + in[1];
      return ir::Remainder(sum, ir::SplatLike(sum, 64));
    });
  }

  base::Random& random_;
  Variables variables_;
  std::vector<Vector> start_;
  std::vector<Op> ops_;
};

// One Run with random fetches and feeds.
void ExpectRunAgrees(base::Random& random, RandomGraph& graph, Session& session) {
  const std::vector<Op>& ops = graph.ops();
  const int64_t size = 1 + static_cast<int64_t>(random.Below(3));
  absl::flat_hash_map<int, Vector> feeds;
  FeedDict fed;
  for (int id = 0; id < static_cast<int>(ops.size()); ++id) {
    const bool placeholder = ops[id].kind == Kind::kFed;
    const bool feedable = ops[id].tensor.valid() && ops[id].kind != Kind::kRead;
    if (!placeholder && (!feedable || random.Below(12) != 0)) continue;
    Vector value(graph.IsScalar(id) ? 1 : size);
    for (float& x : value) x = static_cast<float>(random.Below(20));
    const Shape shape = graph.IsScalar(id) ? Shape() : Shape({size});
    fed.push_back({ops[id].tensor, Array::Of<float>(shape, value)});
    feeds[id] = value;
  }
  std::vector<int> fetched;
  Fetches fetches;
  for (int i = 0; i < 4; ++i) {
    const int id = static_cast<int>(random.Below(ops.size()));
    fetched.push_back(id);
    if (ops[id].tensor.valid()) {
      fetches.push_back(ops[id].tensor);
    } else {
      fetches.push_back(ops[id].operation);
    }
  }
  Reference reference(ops, graph.start(), feeds);
  reference.Run(fetched);
  const auto got = session.Run(fetches, fed);
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < fetched.size(); ++i) {
    ASSERT_EQ((*got)[i].valid(), ops[fetched[i]].tensor.valid());
    if (!(*got)[i].valid()) continue;
    const auto values = (*got)[i].values<float>();
    const Vector& want = reference.ValueOf(fetched[i]);
    EXPECT_EQ(Vector(values.begin(), values.end()), want) << ops[fetched[i]].operation.name();
  }
  for (size_t v = 0; v < graph.variables().size(); ++v) {
    EXPECT_EQ(session.GetVariableValue(graph.variables()[v].def()->name)->item<float>(),
              graph.start()[v][0]);
  }
}

TEST(RandomGraphTest, RunsAgreeWithTheRules) {
  for (base::RandomCases cases(8); cases.Next();) {
    SCOPED_TRACE(cases.Describe());
    base::Random random(cases.seed());
    Graph graph;
    const auto scope = graph.AsDefault();
    RandomGraph made(random);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    Session session("", {.client = runtime::TestClient(1)});
    ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
    for (int run = 0; run < 2; ++run) ExpectRunAgrees(random, made, session);
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace random_graph_test
}  // namespace penstock::session
