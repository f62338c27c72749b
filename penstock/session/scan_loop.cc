#include "penstock/session/scan_loop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/session/body.h"
#include "penstock/session/control_flow.h"
#include "penstock/session/infer.h"
#include "penstock/session/run/scan_lowering.h"

namespace penstock::session {
namespace {

// The static length of all xs: -1 if none tells it.
absl::StatusOr<int64_t> LengthOf(const Tensors& xs) {
  if (xs.empty()) return absl::InvalidArgumentError("there is no tensor whose rows it runs over");
  int64_t length = -1;
  for (size_t i = 0; i < xs.size(); ++i) {
    const PartialShape& shape = xs[i].shape();
    if (!shape.has_rank()) continue;
    if (shape.rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("elems ", i, " is ", TypeString(xs[i]), ", which has no rows"));
    }
    const int64_t rows = shape.dim(0);
    if (rows >= 0 && length >= 0 && rows != length) {
      return absl::InvalidArgumentError(absl::StrCat("elems ", i, " is ", TypeString(xs[i]),
                                                     ", and another one has ", length,
                                                     " rows; their first extents must agree"));
    }
    if (rows >= 0) length = rows;
  }
  return length;
}

// Types of the body's arguments: the index, the states, a row of each x.
std::vector<Node::Output> ArgumentTypes(const ScanLoop& loop) {
  std::vector<Node::Output> types{{DType::kI32, Shape()}};
  for (const Tensor& state : loop.states) types.push_back({state.dtype(), state.shape()});
  for (const Tensor& x : loop.xs) {
    const PartialShape& shape = x.shape();
    types.push_back({x.dtype(), shape.has_rank() ? shape.shape().RowShape() : PartialShape()});
  }
  return types;
}

absl::Status CheckScanBody(const ScanLoop& loop, const Body& body, size_t num_states) {
  if (num_states != loop.states.size()) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", loop.states.size(),
                                                   " states, and its function returns ", num_states,
                                                   "; both must be the same"));
  }
  for (size_t i = 0; i < num_states; ++i) {
    const Tensor &state = loop.states[i], &result = body.results[i];
    if (result.dtype() == state.dtype() && result.shape().IsCompatibleWith(state.shape())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("state ", i, " is ", TypeString(state), ", and its function returns ",
                     TypeString(result), "; types and shapes stay the same from row to row"));
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<ScanRow> AddScan(const ScanLoop& loop, const ScanBody& body, SourceLocation where) {
  Tensors inputs = loop.states;
  inputs.insert(inputs.end(), loop.xs.begin(), loop.xs.end());
  const auto fail = [&](absl::string_view message) {
    FailOp(inputs, absl::StrCat("Scan '", loop.name, "'"), message, where);
    return std::nullopt;
  };
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return !x.valid(); })) {
    return fail("one of its tensors is invalid");
  }
  const absl::StatusOr<int64_t> length = LengthOf(loop.xs);
  if (!length.ok()) return fail(length.status().message());
  Graph* const graph = inputs[0].graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const NameScope scope(loop.name);
  auto owner = std::make_shared<BodyOwner>();
  size_t num_states = 0;
  const Body* const built =
      BuildBody(graph, scope.name(), ArgumentTypes(loop), where, [&](const Tensors& arguments) {
        const auto rows = arguments.begin() + 1 + static_cast<int64_t>(loop.states.size());
        ScanRow out = body(arguments[0], {.states = Tensors(arguments.begin() + 1, rows),
                                          .rows = Tensors(rows, arguments.end())});
        num_states = out.states.size();
        out.states.insert(out.states.end(), out.rows.begin(), out.rows.end());
        return BranchResult(std::move(out.states));
      });
  if (built == nullptr) return std::nullopt;
  owner->bodies.push_back(built);
  if (const absl::Status s = CheckScanBody(loop, *built, num_states); !s.ok()) {
    return fail(s.message());
  }
  std::vector<Node::Output> outputs;
  for (const Tensor& state : loop.states) outputs.push_back({state.dtype(), state.shape()});
  for (size_t i = num_states; i < built->results.size(); ++i) {
    const PartialShape& row = built->results[i].shape();
    if (row.rank() == base::kMaxRank) {
      return fail(absl::StrCat("its function returns ", TypeString(built->results[i]),
                               "; the rows in one tensor would have more than ", base::kMaxRank,
                               " axes"));
    }
    outputs.push_back({built->results[i].dtype(),
                       row.has_rank() ? row.shape().Prepend(*length) : PartialShape()});
  }
  const LoweredScan scan{built, num_states, loop.xs.size(), loop.reverse};
  const Tensors results =
      AddOwner(
          graph, {.type = "Scan", .name = "Exit", .outputs = std::move(outputs)}, inputs, owner,
          [scan](Lowering& lowering, const ir::Values& in) {
            return LowerScan(lowering, in, scan);
          },
          where)
          .outputs();
  if (results.empty()) return std::nullopt;
  const auto stacks = results.begin() + static_cast<int64_t>(num_states);
  return ScanRow{.states = Tensors(results.begin(), stacks),
                 .rows = Tensors(stacks, results.end())};
}

}  // namespace penstock::session
