// Random graphs beside TensorFlow (graphs.py): placeholders of unknown extents, variables, bodies,
// gradients and optimizers, run several times with other shapes, fetches and feeds. Values, types,
// static shapes and names are TensorFlow's, and so are all variables after each Run; what is a
// mistake there when the graph is built is an error here.
//
//   PENSTOCK_RANDOM_SEED=7 PENSTOCK_GRAPHS=300 build/release/tests/session_graphs_test
//
// runs the graphs 7 to 306; with PENSTOCK_FUZZ_SECONDS (random_cases.h) others for that time.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/testing/random_cases.h"

#include "tests/python.h"
#include "tests/session/graphs/graph_operations.h"

namespace penstock::tests::session_graphs {
namespace {

using base::Array;
using Json = nlohmann::json;
using tf::Tensor;
using tf::Tensors;

Array ArrayOf(const Json& json) {
  const base::Shape shape(json["shape"].get<std::vector<int64_t>>());
  const DType dtype = TypeNamed(json["dtype"]);
  if (!base::IsFloat(dtype)) {
    const auto values = json["values"].get<std::vector<int64_t>>();
    return *Array::Of<int64_t>(shape, absl::MakeConstSpan(values)).Cast(dtype);
  }
  std::vector<double> values;
  for (const Json& value : json["values"]) {
    values.push_back(value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  }
  return *Array::Of<double>(shape, absl::MakeConstSpan(values)).Cast(dtype);
}

tf::train::Optimizer OptimizerNamed(const std::string& name) {
  if (name == "GradientDescent") return tf::train::GradientDescentOptimizer(0.125);
  if (name == "Momentum") return tf::train::MomentumOptimizer(0.125, 0.5);
  if (name == "Nesterov") return tf::train::MomentumOptimizer(0.125, 0.5, "Momentum", true);
  if (name == "Adam") return tf::train::AdamOptimizer(0.05);
  if (name == "Adagrad") return tf::train::AdagradOptimizer(0.1);
  if (name == "RMSProp") return tf::train::RMSPropOptimizer(0.01, 0.9, /*momentum=*/0.5);
  return tf::train::FtrlOptimizer(0.1);
}

// Makes the graph of a program.
class Builder {
 public:
  Tensor x(const Json& id) const { return At(tensors_, id); }
  const tf::Variable& variable(const Json& id) const { return variables_.at(id.get<int>()); }
  tf::Operation operation(const Json& id) const {
    const auto found = operations_.find(id.get<int>());
    return found != operations_.end() ? found->second : tf::Operation(x(id));
  }

  // Gradients through functions with steps, and those of gradients: None in TensorFlow.
  const Tensors& zeros() const { return zeros_; }
  // Whether it has an optimizer.
  bool trains() const { return trains_; }

  // Empty, or what is wrong.
  std::string Build(const Json& i) {
    const Tensors outputs = Make(i);
    const absl::Status& status = tf::Graph::Default()->status();
    if (!status.ok()) return std::string(status.message());
    const Json out = i.value("out", Json::array());
    for (size_t n = 0; n < out.size(); ++n) {
      const bool has = n < outputs.size() && outputs[n].valid();
      if (out[n].is_null()) {
        if (has) zeros_.push_back(outputs[n]);
      } else if (!operations_.contains(out[n].get<int>())) {
        if (!has) return absl::StrCat("has no output ", n);
        tensors_[out[n].get<int>()] = outputs[n];
      }
    }
    if (i.contains("full_name") && operation(out[0]).name() != i["full_name"]) {
      return absl::StrCat("is named ", operation(out[0]).name());
    }
    return "";
  }

 private:
  template <typename T>
  static T At(const std::map<int, T>& all, const Json& id) {
    const auto found = all.find(id.get<int>());
    return found == all.end() ? T() : found->second;
  }
  Tensors All(const Json& ids) const {
    Tensors all;
    for (const Json& id : ids) all.push_back(x(id));
    return all;
  }

  Tensors Make(const Json& i) {
    tf::Operations control;
    for (const Json& id : i.value("control", Json::array())) control.push_back(operation(id));
    std::optional<tf::ControlDependencies> after;
    if (!control.empty()) after.emplace(control);
    const std::string op = i["op"];
    if (op == "enter" || op == "exit") return Scope(i);
    if (op == "placeholder") return Placeholder(i);
    if (op == "constant") return {tf::Constant(ArrayOf(i["value"]), i["name"].get<std::string>())};
    if (op == "identity") return {tf::Identity(x(i["in"][0]), i.value("name", ""))};
    if (op == "cond") return Cond(i);
    if (op == "while") return While(i);
    if (op == "gradients") return Gradients(i);
    if (op == "group" || op == "minimize") return Runs(i);
    if (i.contains("variable")) return OfVariable(i);
    return Operations().at(op)(All(i["in"]), i["a"]);
  }

  Tensors Scope(const Json& i) {
    if (i["op"] == "exit") {
      name_scope_.reset();
      variable_scope_.reset();
    } else if (i["variables"]) {
      variable_scope_.emplace(i["name"].get<std::string>());
    } else {
      name_scope_.emplace(i["name"].get<std::string>());
    }
    return {};
  }

  static Tensors Placeholder(const Json& i) {
    std::vector<int64_t> dims;
    for (const Json& dim : i["shape"]) dims.push_back(dim.is_null() ? -1 : dim.get<int64_t>());
    return {
        tf::Placeholder(TypeNamed(i["dtype"]), base::Shape(dims), i["name"].get<std::string>())};
  }

  Tensors OfVariable(const Json& i) {
    const int id = i["variable"];
    if (i["op"] == "variable") {
      const Array value = ArrayOf(i["value"]);
      const std::string name = i["name"];
      const bool trainable = i["trainable"];
      if (i["get"]) {
        variables_[id] = tf::GetVariable(
            name, value.shape(), value.dtype(),
            [&](const tf::Shape&, DType) { return tf::Constant(value); }, {.trainable = trainable});
      } else {
        variables_[id] = tf::Variable(value, name, {.trainable = trainable});
      }
      return {};
    }
    const tf::Variable& v = variable(i["variable"]);
    if (i["op"] == "read") return {v.ReadValue()};
    const Tensor value = x(i["in"][0]);
    if (i["op"] == "assign") return {tf::Assign(v, value)};
    return {i["op"] == "assign_add" ? tf::AssignAdd(v, value) : tf::AssignSub(v, value)};
  }

  Tensors Branch(const Json& branch) {
    for (const Json& i : branch["body"]) {
      const std::string wrong = Build(i);
      EXPECT_TRUE(wrong.empty()) << i.dump() << " in a body: " << wrong;
    }
    return All(branch["results"]);
  }
  Tensors Cond(const Json& i) {
    return tf::Cond(
        x(i["in"][0]), [&] { return Branch(i["true"]); }, [&] { return Branch(i["false"]); });
  }
  Tensors While(const Json& i) {
    const Tensor limit = x(i["in"][0]);
    Tensors start = All(i["in"]);
    start[0] = tf::Constant(0);
    const auto body = [&](const Tensors& v) {
      for (size_t n = 0; n < i["args"].size(); ++n) tensors_[i["args"][n].get<int>()] = v[n + 1];
      Tensors next = Branch(i);
      next.insert(next.begin(), v[0] + 1);
      return next;
    };
    tf::WhileLoopOptions options;
    if (!i["max"].is_null()) options.maximum_iterations = i["max"];
    Tensors out = tf::WhileLoop([&](const Tensors& v) { return tf::Less(v[0], limit); }, body,
                                start, options);
    if (!out.empty()) out.erase(out.begin());
    return out;
  }

  Tensors Gradients(const Json& i) {
    Tensors xs;
    for (const Json& wanted : i["xs"]) {
      xs.push_back(wanted.contains("v") ? Tensor(variable(wanted["v"])) : x(wanted["t"]));
    }
    return tf::Gradients(All(i["in"]), xs,
                         {.grad_ys = All(i["grads"]), .stop_gradients = All(i["stop"])});
  }

  // What has no output.
  Tensors Runs(const Json& i) {
    tf::Operation made;
    if (i["op"] == "group") {
      tf::Operations all;
      for (const Json& id : i["in"]) all.push_back(operation(id));
      made = tf::Group(all, i["name"].get<std::string>());
    } else {
      trains_ = true;
      tf::Variables variables;
      for (const Json& id : i["variables"]) variables.push_back(variable(id));
      made = OptimizerNamed(i["optimizer"]).Minimize(x(i["in"][0]), {}, variables);
    }
    operations_[i["out"][0].get<int>()] = made;
    return {};
  }

  bool trains_ = false;
  Tensors zeros_;
  std::map<int, Tensor> tensors_;
  std::map<int, tf::Variable> variables_;
  std::map<int, tf::Operation> operations_;
  std::optional<tf::NameScope> name_scope_;
  std::optional<tf::VariableScope> variable_scope_;
};

// ---- Comparison ----

// Empty: equal. `trained`: TensorFlow's optimizers have their numbers (beta2) as float32.
std::string Difference(const Array& got, const Json& json, bool trained) {
  const Array want = ArrayOf(json);
  if (got.TypeString() != want.TypeString()) {
    return absl::StrCat("is ", got.TypeString(), ", TensorFlow has ", want.TypeString());
  }
  const Array g = *got.Cast(DType::kF64), w = *want.Cast(DType::kF64);
  // Half precision is used for numbers only that are exact. TensorFlow keeps the numbers of some
  // operations (LeakyRelu's alpha) as float32.
  const double wide = trained ? 1e-4 : 1e-7;
  const double relative = got.dtype() == DType::kF32 ? 2e-4 : got.dtype() == DType::kF64 ? wide : 0;
  for (int64_t k = 0; k < g.num_elements(); ++k) {
    const double a = g.values<double>()[k], b = w.values<double>()[k];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::abs(a - b) <= relative * std::max(1.0, std::abs(b))) continue;
    return absl::StrCat("is ", got.ToString(60), ", TensorFlow has ", want.ToString(60));
  }
  return "";
}

// TensorFlow's static shape must be possible for ours.
std::string ShapeDifference(const Tensor& tensor, const Json& json) {
  if (json.is_null() || !tensor.valid()) return "";
  std::vector<int64_t> dims;
  for (const Json& dim : json) dims.push_back(dim.is_null() ? -1 : dim.get<int64_t>());
  const tf::PartialShape want{base::Shape(dims)};
  if (tensor.shape().IsCompatibleWith(want)) return "";
  return absl::StrCat("static shape is ", tensor.shape().ToString(), ", TensorFlow's is ",
                      want.ToString());
}

std::string VariableDifference(const tf::Session& session, const Json& variables, bool trained) {
  for (const auto& [name, want] : variables.items()) {
    const absl::StatusOr<Array> value = session.GetVariableValue(name);
    if (!value.ok()) return absl::StrCat("variable ", name, ": ", value.status().message());
    const std::string wrong = Difference(*value, want, trained);
    if (!wrong.empty()) return absl::StrCat("variable ", name, " ", wrong);
  }
  return "";
}

std::string WrongInRun(const Builder& builder, tf::Session& session, const Json& run, bool called) {
  tf::FeedDict feeds;
  for (const Json& feed : run["feeds"]) {
    feeds.push_back({builder.x(feed["t"]), ArrayOf(feed["value"])});
  }
  tf::Fetches fetches;
  for (const Json& fetch : run["fetches"]) {
    if (fetch.contains("t")) fetches.push_back(builder.x(fetch["t"]));
    if (fetch.contains("o")) fetches.push_back(builder.operation(fetch["o"]));
    if (fetch.contains("v")) fetches.push_back(builder.variable(fetch["v"]));
  }
  for (const Tensor& zero : builder.zeros()) fetches.push_back(zero);
  absl::StatusOr<std::vector<Array>> got;
  if (called) {
    Tensors fed;
    std::vector<Array> arrays;
    for (const tf::Feed& feed : feeds) {
      fed.push_back(feed.first);
      arrays.push_back(feed.second);
    }
    auto callable = session.MakeCallable(fetches, fed);
    got =
        callable.ok() ? (*callable)(arrays) : absl::StatusOr<std::vector<Array>>(callable.status());
  } else {
    got = session.Run(fetches, feeds);
  }
  if (!got.ok()) return std::string(got.status().message());
  for (size_t n = 0; n < run["fetches"].size(); ++n) {
    const Json& want = run["want"][n];
    std::string wrong = want.is_null() == (*got)[n].valid() ? "has a value or has none" : "";
    if (wrong.empty() && !want.is_null()) wrong = Difference((*got)[n], want, builder.trains());
    if (wrong.empty()) wrong = ShapeDifference(fetches[n].tensor(), run["shapes"][n]);
    if (!wrong.empty()) return absl::StrCat("fetch ", run["fetches"][n].dump(), " ", wrong);
  }
  for (size_t n = run["fetches"].size(); n < fetches.size(); ++n) {
    const Array value = *(*got)[n].Cast(DType::kF64);
    for (const double v : value.values<double>()) {
      if (v != 0) return absl::StrCat(fetches[n].tensor().name(), " is ", value.ToString(60));
    }
  }
  return VariableDifference(session, run["variables"], builder.trains());
}

// What is wrong with a graph; empty if nothing is.
std::string WrongIn(const Json& json) {
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  Builder builder;
  for (const Json& i : json["program"]) {
    const std::string wrong = builder.Build(i);
    if (!wrong.empty()) return absl::StrCat(i.dump(), " ", wrong);
  }
  tf::Session session("cpu");
  if (absl::Status status = session.Run(tf::GlobalVariablesInitializer()); !status.ok()) {
    return absl::StrCat("initializer: ", status.message());
  }
  for (size_t n = 0; n < json["runs"].size(); ++n) {
    const std::string wrong = WrongInRun(builder, session, json["runs"][n], n % 2 == 1);
    if (!wrong.empty()) return absl::StrCat("run ", n, ": ", wrong);
  }
  if (json["mistake"].is_null()) return "";
  const bool accepted = builder.Build(json["mistake"]).empty();
  return accepted ? absl::StrCat(json["mistake"].dump(), " is no error") : "";
}

std::string Listing(const Json& json) {
  std::string text;
  for (const Json& i : json["program"]) absl::StrAppend(&text, i.dump(), "\n");
  for (const Json& run : json["runs"]) absl::StrAppend(&text, run["fetches"].dump(), "\n");
  return text;
}

// An unsigned number of the environment.
uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t number = otherwise;
  EXPECT_TRUE(text == nullptr || absl::SimpleAtoi(text, &number)) << name;
  return number;
}

void CompareGraphs(uint64_t first, uint64_t count) {
  const TemporaryFolder folder;
  const absl::Status ran =
      RunPython("session/graphs/graphs.py",
                {folder.path().string(), absl::StrCat(first), absl::StrCat(count)});
  ASSERT_TRUE(ran.ok()) << ran;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::ifstream file(folder.path() / absl::StrCat(seed, ".json"));
    const Json json = Json::parse(file);
    const std::string wrong = WrongIn(json);
    EXPECT_TRUE(wrong.empty()) << "graph " << seed << " (PENSTOCK_RANDOM_SEED=" << seed
                               << " PENSTOCK_GRAPHS=1): " << wrong << "\n"
                               << Listing(json);
  }
}

TEST(SessionGraphs, RunAsInTensorFlow) {
  const uint64_t count = Setting("PENSTOCK_GRAPHS", 12);
  for (base::RandomCases cases(1); cases.Next() && !HasFailure();) {
    // Graphs of other seeds each time.
    const uint64_t first =
        cases.number() == 0 ? cases.seed() : base::MixSeeds(cases.seed(), count) >> 1;
    CompareGraphs(first, count);
  }
}

}  // namespace
}  // namespace penstock::tests::session_graphs
