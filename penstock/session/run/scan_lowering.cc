#include "penstock/session/run/scan_lowering.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/session/variable.h"

namespace penstock::session {
namespace {

ir::Values Between(const ir::Values& values, size_t begin, size_t end) {
  return ir::Values(values.begin() + static_cast<int64_t>(begin),
                    values.begin() + static_cast<int64_t>(end));
}

// Types of the body's arguments; an error for an x without rows, or of another length.
absl::StatusOr<std::vector<ir::TensorType>> ScanTypes(const ir::Values& states,
                                                      const ir::Values& xs) {
  std::vector<ir::TensorType> types{{DType::kI32, {}}};
  for (const ir::Value& state : states) types.push_back(state.type());
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].rank() == 0 || xs[i].shape().dim(0) != xs[0].shape().dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat("elems ", i, " is ", xs[i].type().ToString(),
                                                     " and elems 0 ", xs[0].type().ToString(),
                                                     "; their first extents must agree"));
    }
    types.push_back({xs[i].dtype(), xs[i].shape().RowShape()});
  }
  return types;
}

absl::Status CheckResultTypes(const ir::Graph& body, const std::vector<ir::TensorType>& types,
                              size_t num_states, size_t num_results) {
  for (size_t i = 0; i < num_states; ++i) {
    const ir::TensorType &before = types[1 + i], &after = body.results()[i].type();
    if (before == after) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("state ", i, " is ", before.ToString(), ", and its function returns ",
                     after.ToString(), "; types and shapes stay the same from row to row"));
  }
  // Of rows whose rank was not known when the graph was built.
  for (size_t i = num_states; i < num_results; ++i) {
    const ir::TensorType& row = body.results()[i].type();
    if (row.shape.rank() < base::kMaxRank) continue;
    return absl::InvalidArgumentError(absl::StrCat("its function returns ", row.ToString(),
                                                   "; the rows in one tensor would have more than ",
                                                   base::kMaxRank, " axes"));
  }
  return absl::OkStatus();
}

}  // namespace

ir::Values LowerScan(Lowering& lowering, const ir::Values& in, const LoweredScan& scan) {
  const size_t n = scan.num_states;
  ir::Values states = Between(in, 0, n);
  const ir::Values xs = Between(in, n, n + scan.num_xs);
  const auto types = ScanTypes(states, xs);
  if (!types.ok()) {
    lowering.Fail(types.status());
    return {};
  }
  const LoweredBody body = lowering.LowerBody(*scan.body, *types, /*iterations=*/true);
  if (body.graph == nullptr) return {};
  if (const absl::Status s = CheckResultTypes(*body.graph, *types, n, body.num_results); !s.ok()) {
    lowering.Fail(s);
    return {};
  }
  for (const VariableDef* variable : body.assigned) states.push_back(lowering.Read(*variable));
  // A variable that the body assigns has its value at the start of the iteration; everything else
  // that is captured is the same in all.
  ir::Values constants;
  std::vector<size_t> state_of(body.captured.size());  // states.size(): a constant
  for (size_t i = 0; i < body.captured.size(); ++i) {
    const auto at =
        std::find(body.assigned.begin(), body.assigned.end(), body.captured[i].variable);
    state_of[i] = n + static_cast<size_t>(at - body.assigned.begin());
    if (at == body.assigned.end()) constants.push_back(body.captured[i].outer);
  }
  const ir::ScanOut out = ir::Scan(
      states, xs, constants,
      [&](ir::Graph& graph, const ir::ScanIn& row) -> ir::ScanOut {
        ir::Values arguments{row.index, row.index};  // the iteration, and the body's argument
        const ir::Values own = Between(row.state, 0, n);
        arguments.insert(arguments.end(), own.begin(), own.end());
        arguments.insert(arguments.end(), row.x.begin(), row.x.end());
        size_t next = 0;
        for (const size_t state : state_of) {
          arguments.push_back(state < row.state.size() ? row.state[state] : row.constants[next++]);
        }
        const ir::Values results = graph.Inline(*body.graph, arguments);
        if (results.size() < body.num_results) return {};
        ir::Values after = Between(results, 0, n);
        const ir::Values assigned = Between(results, body.num_results, results.size());
        after.insert(after.end(), assigned.begin(), assigned.end());
        return {.state = std::move(after), .y = Between(results, n, body.num_results)};
      },
      {.reverse = scan.reverse, .count = xs[0].shape().dim(0)});
  if (!lowering.graph().status().ok()) return {};
  for (size_t i = 0; i < body.assigned.size(); ++i) {
    lowering.Assign(*body.assigned[i], out.state[n + i]);
  }
  ir::Values results = Between(out.state, 0, n);
  results.insert(results.end(), out.y.begin(), out.y.end());
  return results;
}

}  // namespace penstock::session
