// Recurrent networks against tf.nn.dynamic_rnn and its relatives: the rows of rnn.py.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/session/gradients.h"
#include "penstock/session/losses.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/rnn/rnn.h"
#include "penstock/session/train/optimizer.h"

#include "tests/session_training/expected.h"

namespace penstock::tests {
namespace {

namespace cells = tf::nn::rnn_cell;

std::optional<double> Limit(const json& spec, const char* name) {
  return spec.contains(name) ? std::optional<double>(spec[name].get<double>()) : std::nullopt;
}

// The cell that rnn.py describes.
cells::RNNCell CellOf(const json& spec) {
  const std::string kind = spec["kind"], name = spec.value("name", "");
  const json& units = spec["units"];
  if (kind == "multi") {
    std::vector<cells::RNNCell> all;
    for (const json& one : units) all.push_back(CellOf(one));
    return cells::MultiRNNCell(all);
  }
  if (kind == "residual") return cells::ResidualWrapper(CellOf(units));
  if (kind == "dropout") return cells::DropoutWrapper(CellOf(units), {.output_keep_prob = 1.0});
  const int64_t n = units;
  const bool relu = spec.value("activation", "") == "relu";
  if (kind == "basic_rnn") {
    return relu ? cells::BasicRNNCell(n, {.activation = tf::nn::Relu}) : cells::BasicRNNCell(n);
  }
  if (kind == "basic_lstm") {
    return cells::BasicLSTMCell(n, {.forget_bias = spec.value("forget_bias", 1.0), .name = name});
  }
  if (kind == "gru") return cells::GRUCell(n);
  cells::LSTMCellOptions options{.use_peepholes = spec.value("use_peepholes", false),
                                 .cell_clip = Limit(spec, "cell_clip"),
                                 .proj_clip = Limit(spec, "proj_clip"),
                                 .forget_bias = spec.value("forget_bias", 1.0)};
  if (spec.contains("num_proj")) options.num_proj = spec["num_proj"].get<int64_t>();
  return cells::LSTMCell(n, options);
}

struct Network {
  tf::Tensors outputs, states;
};

Network Build(const json& row, const tf::Tensor& x, const tf::Tensors& initial) {
  const json& args = row["args"];
  const std::string function = row["function"];
  tf::Tensor lengths;
  if (args.contains("sequence_length")) {
    const auto values = args["sequence_length"].get<std::vector<int32_t>>();
    lengths = tf::Constant(Array::Of<int32_t>({static_cast<int64_t>(values.size())}, values));
  }
  const bool time_major = args.value("time_major", false);
  const cells::RNNCell cell = CellOf(row["cell"]);
  if (function == "bidirectional") {
    const auto both = tf::nn::BidirectionalDynamicRnn(
        cell, CellOf(row["cell"]), x, {.sequence_length = lengths, .time_major = time_major});
    return {both.outputs, cells::State(both.states).Flatten()};
  }
  size_t next = 0;
  cells::State state;
  if (!initial.empty()) state = cell.state_size().Map([&](int64_t) { return initial[next++]; });
  if (function == "static") {
    const auto done =
        tf::nn::StaticRnn(cell, tf::Unstack(x, std::nullopt, 1), {.sequence_length = lengths});
    return {done.outputs, done.state.Flatten()};
  }
  const auto done = tf::nn::DynamicRnn(cell, x,
                                       {.sequence_length = lengths,
                                        .initial_state = state,
                                        .time_major = time_major,
                                        .scope = args.value("scope", "rnn")});
  return {{done.outputs}, done.state.Flatten()};
}

tf::Tensors Inputs(const json& row, const char* what) {
  const Expected& expected = Expected::Get();
  const std::string key = row["key"];
  tf::Tensors all;
  for (int k = 0; expected.Has(absl::StrCat(key, what, "/", k)); ++k) {
    all.push_back(tf::Constant(expected.array(absl::StrCat(key, what, "/", k))));
  }
  return all;
}

// All rows are one program.
TEST(RnnParity, OutputsStatesGradientsAndNamesAreTensorFlows) {
  const Expected& expected = Expected::Get();
  ASSERT_EQ(expected.status(), absl::OkStatus());
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  tf::Tensors fetches;
  std::vector<std::string> keys;  // of the fetches' values
  const auto fetch = [&](const json& row, const char* kind, const tf::Tensors& tensors) {
    for (size_t k = 0; k < tensors.size(); ++k) {
      fetches.push_back(tensors[k]);
      keys.push_back(absl::StrCat(row["key"].get<std::string>(), kind, "/", k));
    }
  };
  std::vector<std::pair<std::string, std::string>> variables;  // name, key of the value
  int index = 0;
  const json& rows = expected.rows()["rnn"]["networks"];
  for (const json& row : rows) {
    const std::string key = row["key"], prefix = absl::StrCat("n", index++);
    const tf::Tensor x = tf::Constant(expected.array(key + "x"));
    const tf::Tensors initial = Inputs(row, "initial");
    Network network;
    {
      const tf::VariableScope own(prefix);
      network = Build(row, x, initial);
    }
    ASSERT_EQ(graph.status(), absl::OkStatus()) << row;
    tf::Tensors xs{x}, ys = network.outputs;
    xs.insert(xs.end(), initial.begin(), initial.end());
    ys.insert(ys.end(), network.states.begin(), network.states.end());
    std::vector<std::string> names;
    for (const tf::Variable& variable : tf::TrainableVariables(prefix + "/")) {
      names.push_back(variable.def()->name);
      variables.push_back({names.back(), key + "variable/" + names.back()});
      xs.push_back(variable);
    }
    ASSERT_EQ(names, row["variables"].get<std::vector<std::string>>()) << row;
    fetch(row, "output", network.outputs);
    fetch(row, "state", network.states);
    fetch(row, "gradient", tf::Gradients(ys, xs, {.grad_ys = Inputs(row, "cotangent")}));
    ASSERT_EQ(graph.status(), absl::OkStatus()) << row;
  }
  tf::Session session = OpenSession();
  for (const auto& [name, key] : variables) {
    ASSERT_EQ(session.SetVariableValue(name, expected.array(key)), absl::OkStatus()) << key;
  }
  const auto got = session.Run(fetches);
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t number = std::stoul(keys[i].substr(keys[i].find('/') + 1));
    ExpectClose((*got)[i], expected.array(keys[i]), 1e-5, keys[i] + " " + rows[number].dump());
  }
}

TEST(RnnParity, ClassifierLearnsAsInTensorFlow) {
  const Expected& expected = Expected::Get();
  ASSERT_EQ(expected.status(), absl::OkStatus());
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  const tf::Tensor ids = tf::Placeholder(DType::kI32, {-1, -1}),
                   lengths = tf::Placeholder(DType::kI32, {-1}),
                   labels = tf::Placeholder(DType::kI64, {-1});
  const tf::Variable table = tf::GetVariable("embedding", {11, 5});
  const cells::RNNCell stack = cells::MultiRNNCell({cells::BasicLSTMCell(8), cells::GRUCell(6)});
  const auto [outputs, state] =
      tf::nn::DynamicRnn(stack, tf::nn::EmbeddingLookup(table, ids), {.sequence_length = lengths});
  const tf::Tensor logits = tf::MatMul(state[-1].value(), tf::GetVariable("w", {6, 3}));
  const tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(labels, logits);
  tf::train::AdamOptimizer optimizer(0.05);
  auto pairs = optimizer.ComputeGradients(loss);
  tf::Tensors gradients;
  for (const auto& pair : pairs) gradients.push_back(pair.gradient);
  const auto [clipped, norm] = tf::ClipByGlobalNorm(gradients, 0.5);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i].gradient = clipped[i];
  const tf::Operation train = optimizer.ApplyGradients(pairs);
  ASSERT_EQ(graph.status(), absl::OkStatus());
  tf::Session session = OpenSession();
  ASSERT_EQ(session.Run(tf::GlobalVariablesInitializer()), absl::OkStatus());
  for (const std::string name : expected.rows()["rnn"]["classifier"]["variables"]) {
    ASSERT_EQ(session.SetVariableValue(name, expected.array("rnn/train/variable/" + name)),
              absl::OkStatus());
  }
  const Array losses = expected.array("rnn/train/losses");
  for (int64_t i = 0; i < losses.shape().dim(0); ++i) {
    const auto batch = [&](const char* what) {
      return expected.array(absl::StrCat("rnn/train/", what)).Row(i);
    };
    const auto got =
        session.Run({train, loss, norm},
                    {{ids, batch("x")}, {lengths, batch("lengths")}, {labels, batch("labels")}});
    ASSERT_TRUE(got.ok()) << got.status();
    const std::string what = absl::StrCat("step ", i);
    ExpectClose((*got)[1], Array::Scalar(losses.item<float>({i, 0})), 1e-4, what + ": loss");
    ExpectClose((*got)[2], Array::Scalar(losses.item<float>({i, 1})), 1e-4,
                what + ": norm of the gradients");
  }
}

}  // namespace
}  // namespace penstock::tests
