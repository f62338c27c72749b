#include "penstock/session/infer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/session/lowering.h"

namespace penstock::session {
namespace {

using ir::TensorType;

// Pairs of guesses for unknown extents: multiples of what programs split and reshape by, unlikely
// as extents of their own. The smaller pairs are for shapes with many unknown extents.
constexpr std::pair<int64_t, int64_t> kGuesses[] = {{80640, 241920}, {960, 1920}, {12, 24}};

constexpr int64_t kLarge = -1;  // stands for them
constexpr double kMostCombinations = 500;
constexpr double kMostElements = 1e18;

// The Lowering of operations without side effects, which use its graph only.
class ScratchLowering final : public Lowering {
 public:
  ScratchLowering(ir::Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  ir::Graph& graph() override { return graph_; }
  const Node& node() const override { return node_; }
  int num_replicas() const override { return graph_.num_replicas(); }
  bool has_gradients() const override { return false; }
  ir::Value ValueOf(const Tensor&) override { return NeedsOutputs(); }
  ir::Value Read(const VariableDef&) override { return NeedsOutputs(); }
  ir::Value ReadBefore(const VariableDef&) override { return NeedsOutputs(); }
  ir::Values ReadsOfAssigned(const VariableDef&) override { return {}; }
  void Assign(const VariableDef&, ir::Value) override { NeedsOutputs(); }
  ir::Value RandomKey(const Node&) override { return NeedsOutputs(); }
  absl::StatusOr<Array> ConstantOf(const Node&, int, ir::Value) override {
    NeedsOutputs();
    return graph_.status();
  }
  LoweredBody LowerBody(const Body&, absl::Span<const TensorType>, bool) override {
    NeedsOutputs();
    return {};
  }
  void Fail(const absl::Status& error) override { graph_.Fail(error); }

 private:
  ir::Value NeedsOutputs() {
    graph_.Fail(absl::InternalError(
        "an operation that uses the Lowering must give NodeOptions::outputs (a bug)"));
    return ir::Value();
  }

  ir::Graph& graph_;
  const Node& node_;
};

using Types = std::vector<TensorType>;

// Whether the number of elements, which operations compute, would overflow.
bool IsTooLarge(const TensorType& type) {
  double elements = 1;
  for (const int64_t extent : type.shape) elements *= static_cast<double>(extent);
  return elements > kMostElements;
}

absl::StatusOr<Types> Evaluate(const LowerFunction& lower, const Types& inputs, const Node& node) {
  ir::Graph graph("shapes", node.num_shards);
  ScratchLowering lowering(graph, node);
  ir::Values values;
  for (const TensorType& type : inputs) values.push_back(graph.Parameter(type, "x"));
  const absl::Status thrown = base::CatchExceptions([&] {
    values = lower(lowering, values);
    return absl::OkStatus();
  });
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  PENSTOCK_RETURN_IF_ERROR(thrown);
  Types types;
  for (const ir::Value& value : values) {
    if (!value.valid()) return absl::InternalError("it gave an invalid value (a bug)");
    types.push_back(value.type());
    if (IsTooLarge(types.back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("its result ", types.back().ToString(), " does not fit into any memory"));
    }
  }
  return types;
}

// The inputs of one node, with guesses in place of unknown extents.
class Inference {
 public:
  Inference(const LowerFunction& lower, const Node& node) : lower_(lower), node_(node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const PartialShape& shape = node.inputs[i].shape();
      types_.push_back({node.inputs[i].dtype(), shape.shape()});
      if (!shape.has_rank()) unranked_.push_back(i);
      for (int axis = 0; shape.has_rank() && axis < shape.rank(); ++axis) {
        const int64_t extent = shape.dim(axis);
        if (extent < 0) unknown_.push_back({i, axis});
        const bool is_new = std::find(known_.begin(), known_.end(), extent) == known_.end();
        if (extent > 1 && is_new) known_.push_back(extent);
      }
    }
  }

  absl::StatusOr<std::vector<Node::Output>> Run() {
    if (!unranked_.empty()) return RunUnranked();
    if (unknown_.empty() && TooLarge()) return TooLargeError();
    if (unknown_.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(const Types types, Evaluate(lower_, types_, node_));
      std::vector<Node::Output> outputs;
      for (const TensorType& type : types) outputs.push_back({type.dtype, type.shape});
      return outputs;
    }
    TryPairs(std::vector<int64_t>(unknown_.size(), kLarge));
    if (!successes_.empty()) TryOnes();
    if (successes_.empty()) TryMixed();
    if (successes_.empty()) TrySmall();
    if (successes_.empty() && error_.ok()) return TooLargeError();
    if (successes_.empty()) return WithQuestionMarks(error_);
    return Combined();
  }

 private:
  // With these extents in place of the unknown ones.
  bool Try(const std::vector<int64_t>& extents, bool keep = true) {
    for (size_t u = 0; u < unknown_.size(); ++u) {
      types_[unknown_[u].first].shape.set_dim(unknown_[u].second, extents[u]);
    }
    if (TooLarge()) return false;
    absl::StatusOr<Types> types = Evaluate(lower_, types_, node_);
    if (types.ok() && keep) successes_.push_back(*types);
    if (types.ok()) last_ = *std::move(types);
    if (!types.ok() && error_.ok()) error_ = types.status();
    return types.ok();
  }
  bool TooLarge() const { return std::any_of(types_.begin(), types_.end(), IsTooLarge); }
  bool TryAll(int64_t extent, bool keep = true) {
    return Try(std::vector<int64_t>(unknown_.size(), extent), keep);
  }

  // With two large numbers in place of kLarge; neither counts unless both are possible.
  bool TryPairs(const std::vector<int64_t>& extents) {
    for (const auto& [first, second] : kGuesses) {
      const size_t before = successes_.size();
      bool possible = true;
      for (const int64_t guess : {first, second}) {
        std::vector<int64_t> guessed = extents;
        std::replace(guessed.begin(), guessed.end(), kLarge, guess);
        possible = possible && Try(guessed);
      }
      if (possible) return true;
      successes_.resize(before);
    }
    return false;
  }

  // An operation that drops axes of extent 1 has an unknown rank, and x[1:3] has unknown extents:
  // there may be fewer elements.
  void TryOnes() {
    if (TryAll(1, /*keep=*/false) && last_.size() == successes_[0].size()) {
      successes_.push_back(last_);
    }
  }

  // Some unknown extents must be 1 or equal to a known one: [?,?] x [5,3].
  void TryMixed() {
    std::vector<int64_t> guesses = known_;
    guesses.push_back(1);
    guesses.push_back(kLarge);
    double combinations = 1;
    for (size_t u = 0; u < unknown_.size(); ++u) {
      combinations *= static_cast<double>(guesses.size());
    }
    if (combinations > kMostCombinations) {
      for (const int64_t guess : guesses) TryPairs(std::vector(unknown_.size(), guess));
    } else {
      std::vector<size_t> digits(unknown_.size(), 0);
      for (int64_t n = 0; n < static_cast<int64_t>(combinations); ++n) {
        std::vector<int64_t> extents;
        for (size_t digit : digits) extents.push_back(guesses[digit]);
        const bool large = std::find(extents.begin(), extents.end(), kLarge) != extents.end();
        large ? TryPairs(extents) : Try(extents);
        for (size_t d = 0; d < digits.size() && ++digits[d] == guesses.size(); ++d) digits[d] = 0;
      }
    }
    certain_ = successes_.size() > 1;
  }

  // Any numbers that work: only the ranks are known.
  void TrySmall() {
    certain_ = false;
    const int64_t last = unknown_.size() == 1 ? 1024 : 64;
    for (int64_t g = 2; g <= last && successes_.empty(); ++g) TryAll(g);
    for (int64_t g = 128; g <= 65536 && successes_.empty(); g *= 2) TryAll(g);
    for (int64_t a = 1; a <= last && unknown_.size() == 2; ++a) {
      for (int64_t b = 1; b <= last && successes_.empty(); ++b) Try({a, b});
    }
    if (successes_.empty()) TryAll(0);
  }

  std::vector<Node::Output> Combined() const {
    std::vector<Node::Output> outputs;
    for (size_t i = 0; i < successes_[0].size(); ++i) {
      Node::Output output{successes_[0][i].dtype, successes_[0][i].shape};
      Shape shape = successes_[0][i].shape;
      for (int a = 0; !certain_ && a < shape.rank(); ++a) shape.set_dim(a, -1);
      bool same_rank = true;
      for (const Types& types : successes_) {
        same_rank = same_rank && i < types.size() && types[i].shape.rank() == shape.rank();
        for (int a = 0; same_rank && a < shape.rank(); ++a) {
          if (types[i].shape.dim(a) != shape.dim(a)) shape.set_dim(a, -1);
        }
      }
      output.shape = same_rank ? PartialShape(shape) : PartialShape();
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  // Only the element types are inferred; shapes are checked when the program is built.
  std::vector<Node::Output> RunUnranked() {
    for (int rank = 0; rank <= 4; ++rank) {
      for (size_t i : unranked_) types_[i].shape = Shape(std::vector<int64_t>(rank, 12));
      if (!TryAll(12)) continue;
      std::vector<Node::Output> outputs;
      for (const TensorType& type : successes_[0]) outputs.push_back({type.dtype, PartialShape()});
      return outputs;
    }
    return {{node_.inputs[0].dtype(), PartialShape()}};
  }

  static absl::Status TooLargeError() {
    return absl::InvalidArgumentError("an input does not fit into any memory");
  }

  // The error with "?" in place of the numbers that were guessed.
  static absl::Status WithQuestionMarks(const absl::Status& error) {
    const std::string guess = absl::StrCat(kGuesses[0].first);
    const std::string text(error.message());
    std::string out;
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
      if (end == i) end = i + 1;
      const absl::string_view token = absl::string_view(text).substr(i, end - i);
      absl::StrAppend(&out, token == guess ? "?" : token);
      i = end;
    }
    return absl::Status(error.code(), out);
  }

  const LowerFunction& lower_;
  const Node& node_;
  Types types_;
  std::vector<std::pair<size_t, int>> unknown_;  // input and axis
  std::vector<size_t> unranked_;
  std::vector<int64_t> known_;  // distinct known extents above 1
  std::vector<Types> successes_;
  Types last_;
  bool certain_ = true;
  absl::Status error_;
};

}  // namespace

std::string TypeString(DType dtype, const PartialShape& shape) {
  return absl::StrCat(base::DTypeName(dtype), shape.has_rank() ? shape.ToString() : "<unknown>");
}

absl::StatusOr<std::vector<Node::Output>> InferOutputs(const LowerFunction& lower,
                                                       const Node& node) {
  absl::StatusOr<std::vector<Node::Output>> outputs = Inference(lower, node).Run();
  if (outputs.ok() || node.inputs.empty()) return outputs;
  std::string inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool last = i + 1 == node.inputs.size();
    absl::StrAppend(&inputs, i == 0 ? "" : last ? " and " : ", ", TypeString(node.inputs[i]));
  }
  return base::WithContext(outputs.status(), absl::StrCat("given ", inputs));
}

}  // namespace penstock::session
