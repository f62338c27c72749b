#include "penstock/ir/testing/checks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir::testing {

Array Make(DType dtype, const Shape& shape, const std::vector<double>& values) {
  return *Array::Of<double>(shape, values).Cast(dtype);
}

std::vector<double> Doubles(const Array& array) {
  const Array wide = *array.Cast(DType::kF64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

Array RandomArray(const Shape& shape, uint64_t seed, double low, double high, DType dtype) {
  base::Random random(seed);
  std::vector<double> values(shape.num_elements());
  for (double& v : values) v = low + (high - low) * random.Uniform();
  return Make(dtype, shape, values);
}

Array Map(const Array& x, const std::function<double(double)>& function) {
  std::vector<double> values = Doubles(x);
  std::transform(values.begin(), values.end(), values.begin(), function);
  return Make(x.dtype(), x.shape(), values);
}

std::string ErrorOf(const Graph& graph) { return std::string(graph.status().message()); }

Value Checks::Input(const Array& value) {
  inputs_.push_back(value);
  return graph_.Parameter({value.dtype(), value.shape()}, absl::StrCat("x", inputs_.size()));
}

void Checks::Expect(absl::string_view name, Value got, const Array& want, double tolerance) {
  ASSERT_TRUE(got.valid()) << name << ": " << graph_.status();
  const TensorType expected{want.dtype(), want.shape()};
  ASSERT_EQ(got.type().ToString(), expected.ToString()) << name;
  got_.push_back(got);
  expectations_.push_back({std::string(name), want, tolerance});
}

void Checks::Run() {
  graph_.SetResults(got_);
  const std::vector<std::vector<Array>> arguments(graph_.num_replicas(), inputs_);
  const auto replicas = RunReplicas(graph_, arguments);
  ASSERT_TRUE(replicas.ok()) << replicas.status();
  for (const std::vector<Array>& results : *replicas) {
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& [name, want, tolerance] = expectations_[i];
      const std::vector<double> w = Doubles(want), g = Doubles(results[i]);
      for (size_t k = 0; k < w.size(); ++k) {
        const bool same = g[k] == w[k] || (std::isnan(g[k]) && std::isnan(w[k]));
        const bool near = std::abs(g[k] - w[k]) <= tolerance * std::max(1.0, std::abs(w[k]));
        EXPECT_TRUE(same || near) << name << ": element " << k << " of " << want.TypeString()
                                  << " is " << g[k] << ", expected " << w[k];
        if (!same && !near) break;
      }
    }
  }
}

Values GradientChecks::AddInputs(const std::vector<Array>& inputs) {
  Values values;
  for (const Array& input : inputs) {
    inputs_.push_back(input);
    values.push_back(
        graph_.Parameter({input.dtype(), input.shape()}, absl::StrCat("x", inputs_.size())));
  }
  return values;
}

namespace {

Value Weighted(Value y, uint64_t seed) {
  return ReduceSum(y * Constant(*y.graph(), RandomArray(y.shape(), seed, 0.5, 1.5)));
}

Values Differentiable(const Values& values) {
  Values out;
  for (const Value& v : values) {
    if (IsDifferentiable(v.type())) out.push_back(v);
  }
  return out;
}

}  // namespace

void GradientChecks::Finish(absl::string_view name, const Values& inputs, Value y) {
  ASSERT_TRUE(y.valid()) << name << ": " << graph_.status();
  ASSERT_EQ(y.dtype(), DType::kF64) << name;
  Case added{.name = std::string(name), .parameters = {}, .first_result = results_.size()};
  const Values xs = Differentiable(inputs);
  for (const Value& x : xs) added.parameters.push_back(x.node_id());
  const Value sum = Weighted(y, 7);
  const Values gradients = Gradients(sum, xs);
  ASSERT_TRUE(graph_.status().ok()) << name << ": " << graph_.status();
  results_.push_back(sum);
  results_.insert(results_.end(), gradients.begin(), gradients.end());
  cases_.push_back(std::move(added));
}

void GradientChecks::Add(absl::string_view name, const std::vector<Array>& inputs,
                         const Function& function) {
  const Values values = AddInputs(inputs);
  const int first = graph_.num_nodes();
  const Value y = function(values);
  for (int id = first; id < graph_.num_nodes(); ++id) ops_.insert(graph_.node(id).op);
  Finish(name, values, y);
}

void GradientChecks::AddSecond(absl::string_view name, const std::vector<Array>& inputs,
                               const Function& function) {
  const Values values = AddInputs(inputs);
  const int first = graph_.num_nodes();
  const Value y = function(values);
  ASSERT_TRUE(y.valid()) << name << ": " << graph_.status();
  Values flat;
  for (const Value& d : Gradients(Weighted(y, 11), Differentiable(values))) {
    flat.push_back(Reshape(d, {d.shape().num_elements()}));
  }
  for (int id = first; id < graph_.num_nodes(); ++id) ops_.insert(graph_.node(id).op);
  Finish(absl::StrCat("gradient of ", name), values, Concatenate(flat, 0));
}

void GradientChecks::Run(double tolerance) {
  constexpr double kStep = 1e-5;
  graph_.SetResults(results_);
  const auto program = PrintStableHlo(graph_);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto executable = Executable::Compile(*program);
  ASSERT_TRUE(executable.ok()) << executable.status();
  // Parameters are identified by their node; their index in the argument list differs.
  std::vector<int> place(graph_.num_nodes());
  for (size_t i = 0; i < graph_.parameters().size(); ++i) {
    place[graph_.parameters()[i].node_id()] = static_cast<int>(i);
  }
  const auto analytic = executable->Run(inputs_);
  ASSERT_TRUE(analytic.ok()) << analytic.status();

  // Cases are independent: element k of input j is perturbed in all of them at once.
  size_t max_inputs = 0;
  for (const Case& c : cases_) max_inputs = std::max(max_inputs, c.parameters.size());
  for (size_t j = 0; j < max_inputs; ++j) {
    int64_t max_elements = 0;
    for (const Case& c : cases_) {
      if (j < c.parameters.size()) {
        max_elements = std::max(max_elements, inputs_[place[c.parameters[j]]].num_elements());
      }
    }
    for (int64_t k = 0; k < max_elements; ++k) {
      std::vector<std::vector<Array>> moved;
      for (double step : {kStep, -kStep}) {
        std::vector<Array> arguments = inputs_;
        for (const Case& c : cases_) {
          if (j >= c.parameters.size()) continue;
          Array& x = arguments[place[c.parameters[j]]];
          if (k >= x.num_elements()) continue;
          x = x.Clone();
          x.mutable_data<double>()[k] += step;
        }
        auto results = executable->Run(arguments);
        ASSERT_TRUE(results.ok()) << results.status();
        moved.push_back(*std::move(results));
      }
      for (const Case& c : cases_) {
        if (j >= c.parameters.size() || k >= inputs_[place[c.parameters[j]]].num_elements())
          continue;
        const double numeric =
            (moved[0][c.first_result].item<double>() - moved[1][c.first_result].item<double>()) /
            (2 * kStep);
        const double got = (*analytic)[c.first_result + 1 + j].data<double>()[k];
        EXPECT_NEAR(got, numeric, tolerance * std::max(1.0, std::abs(numeric)))
            << c.name << ": input " << j << ", element " << k;
      }
    }
  }
}

void ExpectAllCovered(OpList family, const absl::flat_hash_set<const OpDef*>& checked,
                      const std::vector<std::string>& without) {
  std::vector<std::string> none;
  for (const OpDef* op : family) {
    if (op->gradient != nullptr) {
      EXPECT_TRUE(checked.contains(op)) << op->name << " has a gradient that no check covers";
    } else if (!op->zero_gradient) {
      none.push_back(op->name);
    }
  }
  EXPECT_EQ(none, without);
}

}  // namespace penstock::ir::testing
