#include "penstock/session/rnn/rnn_cell.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/session/infer.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/variable_table.h"

namespace penstock::session::nn::rnn_cell {
namespace {

// Graph::Extension: the variable scopes of the cells that were called, by cell. It keeps the cells
// alive, so that no other one gets the address of one that is known.
struct CellScopes {
  absl::flat_hash_map<std::shared_ptr<CellDefinition>, std::string> names;
};

// A variable scope that was left, entered again with reuse by its full name.
class ReenteredScope {
 public:
  ReenteredScope(Graph* graph, const std::string& name)
      : table_(graph->Extension<VariableTable>()), names_(absl::StrCat(name, "/")) {
    table_.scopes.push_back({name, Reuse::kReuse, nullptr});
  }
  ~ReenteredScope() {
    table_.ForgetCountsWithin();
    table_.scopes.pop_back();
  }
  ReenteredScope(const ReenteredScope&) = delete;
  ReenteredScope& operator=(const ReenteredScope&) = delete;

 private:
  VariableTable& table_;
  const NameScope names_;
};

bool HasStructure(const State& state, const StateSize& size) {
  if (state.is_tuple() != size.is_tuple() || state.size() != size.size()) return false;
  for (size_t i = 0; i < size.size(); ++i) {
    const int part = static_cast<int>(i);
    if (!HasStructure(state[part], size[part])) return false;
  }
  return true;
}

// "3", "(3, 3)"
std::string SizeText(const StateSize& size) {
  if (!size.is_tuple()) return absl::StrCat(size.value());
  std::string text = "(";
  for (size_t i = 0; i < size.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", SizeText(size[static_cast<int>(i)]));
  }
  return text + ")";
}

// An error if the state does not have the cell's sizes.
absl::Status CheckState(const State& state, const StateSize& size) {
  const std::vector<int64_t> sizes = size.Flatten();
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t extent) { return extent < 1; })) {
    return absl::InvalidArgumentError(absl::StrCat("its state has the sizes ", SizeText(size),
                                                   "; each must be at least 1: check num_units"));
  }
  if (!HasStructure(state, size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its state has the sizes ", SizeText(size), ", and it gets a state of ",
                     state.Flatten().size(), " tensors in another structure"));
  }
  const Tensors tensors = state.Flatten();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].valid()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", i, " of its state is invalid"));
    }
    const PartialShape& shape = tensors[i].shape();
    if (!shape.has_rank() || shape.rank() == 0) continue;
    const int64_t last = shape.dim(-1);
    if (last < 0 || last == sizes[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", i, " of its state is ",
                                                   TypeString(tensors[i]),
                                                   "; its last extent must be ", sizes[i]));
  }
  return absl::OkStatus();
}

}  // namespace

State RNNCell::ZeroState(const Operand& batch_size, DType dtype, SourceLocation where) const {
  if (!valid()) {
    FailOp({batch_size.tensor()}, "ZeroState", "the cell is invalid", where);
    return State();
  }
  const NameScope scope("ZeroState");
  return state_size().Map([&](const int64_t size) {
    if (batch_size.is_number()) {
      return Zeros(Shape{static_cast<int64_t>(batch_size.number()), size}, dtype, "", where);
    }
    const Tensor batch = batch_size.tensor();
    if (!batch.valid()) return FailOp({}, "ZeroState", "the batch size is invalid", where);
    const Tensor shape =
        Stack({batch, Constant(static_cast<double>(size), batch.dtype(), "", where)}, 0, "", where);
    Tensor zeros = Zeros(shape, dtype, "", where);
    if (zeros.valid()) zeros.SetShape({-1, size}, where);
    return zeros;
  });
}

StepOutput RNNCell::operator()(const Tensor& inputs, const State& state,
                               SourceLocation where) const {
  const auto fail = [&](absl::string_view message) {
    const std::string name = valid() ? definition_->scope() : "";
    FailOp({inputs},
           absl::StrCat("RNNCell", name.empty() ? "" : " '", name, name.empty() ? "" : "'"),
           message, where);
    return StepOutput();
  };
  if (!valid()) return fail("the cell is invalid; make it with a function of rnn_cell.h");
  if (!inputs.valid()) return fail("its inputs are an invalid tensor");
  if (const absl::Status s = CheckState(state, state_size()); !s.ok()) return fail(s.message());
  Graph* const graph = inputs.graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  auto& names = graph->Extension<CellScopes>().names;
  const auto known = names.find(definition_);
  if (known != names.end() && known->second.empty()) return definition_->Call(inputs, state, where);
  if (known != names.end()) {
    const ReenteredScope scope(graph, known->second);
    return definition_->Call(inputs, state, where);
  }
  const std::string name = definition_->scope();
  if (name.empty()) {
    names[definition_] = "";
    return definition_->Call(inputs, state, where);
  }
  const Reuse reuse = definition_->reuse();
  const VariableScope scope =
      reuse == Reuse::kNone ? VariableScope(std::nullopt, name) : VariableScope(name, reuse);
  const std::string prefix = graph->Extension<VariableTable>().ScopePrefix();
  names[definition_] = prefix.substr(0, prefix.size() - 1);
  return definition_->Call(inputs, state, where);
}

}  // namespace penstock::session::nn::rnn_cell
