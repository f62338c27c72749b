// Gradient of ir::Scan: a loop in the reverse direction.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/operations/dot.h"
#include "penstock/ir/operations/scan.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {
namespace {

// Stacks of `values` of the loop's body, with one row per iteration; extends the loop to return
// those that it does not return yet.
Values StacksOf(Graph& graph, int id, const Values& values) {
  const Region body = graph.node(id).regions[0];
  const size_t states = Loop::Of(graph.node(id)).states;
  Values stacks(values.size()), results(body->results().begin(), body->results().end());
  std::vector<size_t> added;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = std::find(results.begin() + states, results.end(), values[i]);
    if (at != results.end()) {
      stacks[i] = graph.value(id, static_cast<int>(at - results.begin()));
    } else {
      added.push_back(i);
    }
  }
  if (added.empty()) return stacks;
  for (size_t i : added) {
    if (values[i].rank() < base::kMaxRank) continue;
    graph.Fail(OpError(
        graph.node(id),
        absl::StrCat("has no gradient: it would store ", values[i].type().ToString(),
                     " of each iteration, and a row has at most ", base::kMaxRank - 1, " axes")));
    return stacks;
  }
  for (size_t i : added) results.push_back(values[i]);
  const Region extended = BuildRegion(graph, "body", TypesOfValues(body->parameters()),
                                      [&](Graph& inside, const Values& p) {
                                        return inside.Inline(*body, body->parameters(), p, results);
                                      });
  const Values new_stacks = graph.Extend(id, {extended});
  for (size_t k = 0; k < added.size(); ++k) stacks[added[k]] = new_stacks[k];
  return stacks;
}

// Whether stacking an operand of the product would exceed the maximum rank.
bool HasMostAxes(const Node& dot) {
  return std::any_of(dot.operands.begin(), dot.operands.end(),
                     [](const Value& v) { return v.rank() == base::kMaxRank; });
}

// Type for sums over iterations: 16-bit floats are accumulated in float32.
TensorType SumType(const TensorType& type) {
  return {base::ByteWidth(type.dtype) < 4 ? DType::kF32 : type.dtype, type.shape};
}

// A constant's cotangent that is a product of two rows in each iteration. The sum of all is one
// product of the two stacks, which is faster than a small product and an addition in each
// iteration.
struct Deferred {
  size_t summed;  // index of the sum
  DotDimensions dimensions;
  // Indices of stacks: below num_rows(), that row; from there on, that result of the step.
  size_t lhs, rhs;
};

// The reverse loop. States: cotangents of the float states, sums of those of the constants. Rows:
// the states before each iteration, the products, the xs, the ys' cotangents. Results: the
// cotangents of the xs' rows, and rows for deferred products. Rows that it does not read are not
// stored.
struct BackwardScan {
  explicit BackwardScan(const GradientArgs& g)
      : g(g), loop(Loop::Of(g.node)), graph(*g.results[0].graph()), body(g.node.regions[0]) {
    if (loop.save_products) expensive = ExpensiveValues(*body);
    // A value with the most axes is computed again: a row of such values would have one more.
    std::erase_if(expensive, [](const Value& v) { return v.rank() == base::kMaxRank; });
    for (size_t i = 0; i < loop.states; ++i) {
      if (IsDifferentiable(g.operand(i).type())) floats.push_back(i);
    }
    for (size_t i = loop.states; i < g.node.operands.size(); ++i) {
      if (g.wants(i)) (i < loop.states + loop.xs ? wanted_xs : summed).push_back(i);
    }
    for (size_t i = loop.states; i < g.cotangents.size(); ++i) {
      if (g.cotangents[i].valid()) given_ys.push_back(i);
    }
  }

  // Offsets of the kinds of rows, and their number.
  size_t first_product() const { return loop.states; }
  size_t first_x() const { return first_product() + expensive.size(); }
  size_t first_y() const { return first_x() + loop.xs; }
  size_t num_rows() const { return first_y() + given_ys.size(); }

  // Types: index, `states`, rows, constants.
  std::vector<TensorType> Types(const std::vector<TensorType>& states) const {
    std::vector<TensorType> types{kIndexType};
    types.insert(types.end(), states.begin(), states.end());
    for (size_t i = 0; i < loop.states; ++i) types.push_back(g.operand(i).type());
    for (const Value& v : expensive) types.push_back(v.type());
    for (size_t i = 0; i < loop.xs; ++i) types.push_back(RowOf(g.operand(loop.states + i).type()));
    for (size_t y : given_ys) types.push_back(RowOf(g.cotangents[y].type()));
    for (size_t i = 0; i < loop.constants; ++i) {
      types.push_back(g.operand(loop.states + loop.xs + i).type());
    }
    return types;
  }

  // One iteration: index, cotangents of the float states, rows, constants -> cotangents of the
  // float states, of the rows of the wanted xs, of the summed constants. `products` receives the
  // rematerialized ones.
  Values Step(Graph& inside, const Values& p, Values& products) const {
    const auto rows = p.begin() + 1 + floats.size();
    Values arguments{p[0]};
    arguments.insert(arguments.end(), rows, rows + loop.states);
    arguments.insert(arguments.end(), rows + first_x(), rows + first_y());
    arguments.insert(arguments.end(), rows + num_rows(), p.end());
    Values wanted(body->results().begin(), body->results().end());
    wanted.insert(wanted.end(), expensive.begin(), expensive.end());
    const Values out = inside.Inline(*body, body->parameters(), arguments, wanted);
    if (!inside.status().ok()) return {};
    products.assign(out.end() - expensive.size(), out.end());
    Values ys, xs, cotangents;
    for (size_t f = 0; f < floats.size(); ++f) {
      ys.push_back(out[floats[f]]);
      cotangents.push_back(p[1 + f]);
      xs.push_back(arguments[1 + floats[f]]);
    }
    for (size_t k = 0; k < given_ys.size(); ++k) {
      ys.push_back(out[given_ys[k]]);
      cotangents.push_back(rows[first_y() + k]);
    }
    for (size_t i : wanted_xs) xs.push_back(arguments[1 + i]);
    for (size_t i : summed) xs.push_back(arguments[1 + i]);
    return Gradients(ys, xs, cotangents);
  }

  // Finds the step's sums that are deferred. `extra`: values of the step that need stacks for that.
  std::vector<Deferred> FindDeferred(const Region& step, const Values& products,
                                     Values& extra) const {
    std::vector<Deferred> deferred;
    // A loop that saves no products saves no stacks either.
    if (!loop.save_products) return deferred;
    const size_t first_result = floats.size(), first_sum = first_result + wanted_xs.size();
    for (size_t k = 0; k < summed.size(); ++k) {
      const Value sum = step->results()[first_sum + k];
      const Node& dot = step->node(sum.node_id());
      const std::optional<DotDimensions> dimensions = DimensionsOfDot(dot);
      if (!dimensions.has_value() || HasMostAxes(dot)) continue;
      Values more = extra;
      const auto stack_of = [&](const Value& side) -> size_t {
        for (size_t row = 0; row < num_rows(); ++row) {
          if (step->parameters()[1 + floats.size() + row] == side) return row;
        }
        for (size_t i = 0; i < products.size(); ++i) {
          if (products[i] == side) return first_product() + i;
        }
        for (size_t i = first_result; i < first_sum; ++i) {
          if (step->results()[i] == side) return num_rows() + i;
        }
        const auto at = std::find(more.begin(), more.end(), side) - more.begin();
        if (at == std::ssize(more)) more.push_back(side);
        return num_rows() + first_sum + at;
      };
      const size_t lhs = stack_of(dot.operands[0]), rhs = stack_of(dot.operands[1]);
      int64_t rows = 0;  // elements of new stacks per iteration
      for (size_t i = extra.size(); i < more.size(); ++i) rows += more[i].shape().num_elements();
      // With more elements than the sum, each product is large enough as it is.
      if (rows > sum.shape().num_elements()) continue;
      extra = std::move(more);
      deferred.push_back({k, *dimensions, lhs, rhs});
    }
    return deferred;
  }

  // The loop's body around the step: accumulates `added`, of `summed`, and also returns `extra`.
  // Results: cotangents of the float states, sums, cotangents of the xs' rows, extra.
  Region Body(const Region& step, const std::vector<size_t>& added, const Values& extra,
              const Values& products, std::vector<Known>& known) const {
    const auto& results = step->results();
    const size_t first_x_result = floats.size(), first_sum = first_x_result + wanted_xs.size();
    Values wanted(results.begin(), results.begin() + first_sum);
    wanted.insert(wanted.end(), extra.begin(), extra.end());
    const size_t first_added = wanted.size();
    for (size_t k : added) wanted.push_back(results[first_sum + k]);
    wanted.insert(wanted.end(), products.begin(), products.end());
    const size_t first_row = 1 + floats.size() + added.size();
    return BuildRegion(
        graph, "backward", Types(StateTypes(added)), [&](Graph& in, const Values& p) {
          Values arguments(p.begin(), p.begin() + 1 + floats.size());
          arguments.insert(arguments.end(), p.begin() + first_row, p.end());
          const Values out = in.Inline(*step, step->parameters(), arguments, wanted);
          if (!in.status().ok()) return Values();
          Values given(out.begin(), out.begin() + first_x_result);
          for (size_t a = 0; a < added.size(); ++a) {
            given.push_back(AddCotangent(p[1 + floats.size() + a], out[first_added + a]));
          }
          given.insert(given.end(), out.begin() + first_x_result, out.begin() + first_added);
          for (size_t i = 0; i < products.size(); ++i) {
            known.push_back({out[first_added + added.size() + i], first_row + first_product() + i});
          }
          return given;
        });
  }

  Values Run() const {
    Values out(g.node.operands.size()), products, extra;
    const Region step =
        BuildRegion(graph, "backward", Types(StateTypes({})),
                    [&](Graph& inside, const Values& p) { return Step(inside, p, products); });
    if (!step->status().ok()) {
      graph.Fail(step->status());
      return out;
    }
    const std::vector<Deferred> deferred = FindDeferred(step, products, extra);
    std::vector<size_t> added;
    for (size_t k = 0; k < summed.size(); ++k) {
      if (std::none_of(deferred.begin(), deferred.end(),
                       [&](const Deferred& d) { return d.summed == k; })) {
        added.push_back(k);
      }
    }
    std::vector<Known> known;
    const Region whole = Body(step, added, extra, products, known);
    const size_t states = floats.size() + added.size();
    const Trimmed trimmed = Trim(graph, whole, states, known);

    const std::vector<bool> read(trimmed.read.begin() + 1 + states, trimmed.read.end());
    const Values rows = Rows(read, deferred);
    Values start = Start(added), xs, constants;
    for (size_t i = 0; i < num_rows(); ++i) {
      if (read[i]) xs.push_back(rows[i]);
    }
    for (size_t i = 0; i < loop.constants; ++i) {
      if (read[num_rows() + i]) constants.push_back(g.operand(loop.states + loop.xs + i));
    }
    Loop back = loop;
    back.reverse = !loop.reverse;
    const Values done = EmitScan(graph, back, start, xs, constants, trimmed.region);
    if (done.empty()) return out;
    for (size_t f = 0; f < floats.size(); ++f) out[floats[f]] = done[f];
    const auto keep_sum = [&](size_t k, Value sum) {
      out[summed[k]] = Convert(sum, g.operand(summed[k]).dtype());
    };
    for (size_t a = 0; a < added.size(); ++a) keep_sum(added[a], done[floats.size() + a]);
    for (size_t k = 0; k < wanted_xs.size(); ++k) out[wanted_xs[k]] = done[states + k];
    for (const Deferred& d : deferred) {
      // In the body's results, `extra` follows the sums.
      const auto stack = [&](size_t i) {
        return i < num_rows() ? rows[i] : done[i - num_rows() + added.size()];
      };
      keep_sum(d.summed, DotOfStacks(stack(d.lhs), stack(d.rhs), d.dimensions));
    }
    return out;
  }

  std::vector<TensorType> StateTypes(const std::vector<size_t>& added) const {
    std::vector<TensorType> types;
    for (size_t i : floats) types.push_back(g.operand(i).type());
    for (size_t k : added) types.push_back(SumType(g.operand(summed[k]).type()));
    return types;
  }

  Values Start(const std::vector<size_t>& added) const {
    Values start;
    for (size_t i : floats) {
      start.push_back(g.cotangents[i].valid() ? g.cotangents[i] : SplatLike(g.operand(i), 0));
    }
    for (size_t k : added) start.push_back(Splat(graph, SumType(g.operand(summed[k]).type()), 0));
    return start;
  }

  // Stacks of the rows that the reverse loop or a deferred product reads.
  Values Rows(const std::vector<bool>& read, const std::vector<Deferred>& deferred) const {
    std::vector<bool> needed(read.begin(), read.begin() + num_rows());
    for (const Deferred& d : deferred) {
      for (size_t i : {d.lhs, d.rhs}) {
        if (i < num_rows()) needed[i] = true;
      }
    }
    Values rows(num_rows()), of_body;
    std::vector<size_t> places;
    for (size_t i = 0; i < first_x(); ++i) {
      if (!needed[i]) continue;
      of_body.push_back(i < loop.states ? body->parameters()[1 + i] : expensive[i - loop.states]);
      places.push_back(i);
    }
    const Values stacks = StacksOf(graph, g.results[0].node_id(), of_body);
    for (size_t k = 0; k < places.size(); ++k) rows[places[k]] = stacks[k];
    for (size_t i = 0; i < loop.xs; ++i) rows[first_x() + i] = g.operand(loop.states + i);
    for (size_t k = 0; k < given_ys.size(); ++k) rows[first_y() + k] = g.cotangents[given_ys[k]];
    return rows;
  }

  // Sum over the rows of the products of corresponding rows.
  static Value DotOfStacks(Value lhs, Value rhs, DotDimensions dimensions) {
    for (Axes* axes : {&dimensions.lhs_contracting, &dimensions.rhs_contracting,
                       &dimensions.lhs_batch, &dimensions.rhs_batch}) {
      for (int64_t& axis : *axes) ++axis;
    }
    dimensions.lhs_contracting.insert(dimensions.lhs_contracting.begin(), 0);
    dimensions.rhs_contracting.insert(dimensions.rhs_contracting.begin(), 0);
    return DotGeneral(lhs, rhs, dimensions);
  }

  const GradientArgs& g;
  const Loop loop;
  Graph& graph;
  const Region body;
  Values expensive;                               // of the body
  std::vector<size_t> floats, wanted_xs, summed;  // operands
  std::vector<size_t> given_ys;                   // results
};

}  // namespace

Values ScanGradient(const GradientArgs& g) { return BackwardScan(g).Run(); }

}  // namespace penstock::ir
