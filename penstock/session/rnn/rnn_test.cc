// What the comparison with TensorFlow (tests/session_training/rnn.py) does not reach: unknown and
// empty extents, sharing of variables, dropout, cells of programs, errors.
#include "penstock/session/rnn/rnn.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/gradients.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/session.h"

namespace penstock::session::nn {
namespace rnn_test {
namespace {

using rnn_cell::RNNCell;
using rnn_cell::State;
using rnn_cell::StateSize;
using rnn_cell::StepOutput;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RnnTest : public testing::Test {
 protected:
  Array Value(const Tensor& fetch, const FeedDict& feeds = {}) {
    const absl::StatusOr<Array> got = session_.Run(fetch, feeds);
    if (!got.ok()) ADD_FAILURE() << got.status();
    return got.ok() ? *got->Cast(DType::kF32) : Array::Zeros(DType::kF32, {0});
  }
  std::vector<float> Values(const Tensor& fetch, const FeedDict& feeds = {}) {
    const Array got = Value(fetch, feeds);
    return std::vector<float>(got.values<float>().begin(), got.values<float>().end());
  }
  void Initialize() { ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus()); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Variable& variable : GlobalVariables()) names.push_back(variable.def()->name);
    return names;
  }
  std::string GraphError() const { return std::string(graph_.status().message()); }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_{"", {.client = runtime::TestClient(1)}};
};

// output = new state = state + the sum of the inputs.
class Accumulator final : public rnn_cell::CellDefinition {
 public:
  int64_t output_size() const override { return 1; }
  StateSize state_size() const override { return 1; }
  std::string scope() const override { return "accumulator"; }
  StepOutput Call(const Tensor& inputs, const State& state, SourceLocation) override {
    const Variable rate = GetVariable("rate", {}, DType::kF32, OnesInitializer());
    const Tensor next = state.value() + rate * ReduceSum(inputs, 1, {.keepdims = true});
    return {next, next};
  }
};

TEST_F(RnnTest, RunsAnyNumberOfStepsAndExamples) {
  const Tensor x = Placeholder(DType::kF32, {-1, -1, 1});
  const Tensor lengths = Placeholder(DType::kI64, {-1});
  const RNNCell cell(std::make_shared<Accumulator>());
  const auto [outputs, state] = DynamicRnn(cell, x, {.sequence_length = lengths});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(outputs.shape(), PartialShape({-1, -1, 1}));
  EXPECT_EQ(state.value().shape(), PartialShape({-1, 1}));
  Initialize();
  const Tensor d = Gradients({state.value()}, {x})[0];
  const FeedDict three{{x, Array::Of<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6})},
                       {lengths, Array::Of<int64_t>({2}, {2, int64_t{1} << 33})}};
  EXPECT_THAT(Values(outputs, three), ElementsAre(1, 3, 0, 4, 9, 15));
  EXPECT_THAT(Values(state.value(), three), ElementsAre(3, 15));
  EXPECT_THAT(Values(d, three), ElementsAre(1, 1, 0, 1, 1, 1));
  const FeedDict one{{x, Array::Of<float>({1, 1, 1}, {7})},
                     {lengths, Array::Of<int64_t>({1}, {1})}};
  EXPECT_THAT(Values(outputs, one), ElementsAre(7));
  for (const Shape& empty : {Shape{2, 0, 1}, Shape{0, 2, 1}}) {
    const FeedDict feeds{{x, Array::Zeros(DType::kF32, empty)},
                         {lengths, Array::Zeros(DType::kI64, {empty.dim(0)})}};
    EXPECT_EQ(Value(outputs, feeds).shape(), empty);
    EXPECT_THAT(Values(state.value(), feeds), Each(0));
    EXPECT_EQ(Value(d, feeds).shape(), empty);
  }
}

TEST_F(RnnTest, ReversesEachSequenceByLengthsOfUnknownRank) {
  const Tensor lengths = Placeholder(DType::kU8);
  const Tensor x = Constant(Array::Of<float>({3, 2, 1}, {1, 2, 3, 4, 5, 6}));
  const auto [outputs, states] = BidirectionalDynamicRnn(RNNCell(std::make_shared<Accumulator>()),
                                                         RNNCell(std::make_shared<Accumulator>()),
                                                         x, {.sequence_length = lengths});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_THAT(Names(), ElementsAre("bidirectional_rnn/fw/accumulator/rate",
                                   "bidirectional_rnn/bw/accumulator/rate"));
  Initialize();
  const FeedDict feeds{{lengths, Array::Of<uint8_t>({3}, {200, 1, 0})}};
  EXPECT_THAT(Values(outputs[0], feeds), ElementsAre(1, 3, 3, 0, 0, 0));
  EXPECT_THAT(Values(outputs[1], feeds), ElementsAre(3, 2, 3, 0, 0, 0));
  EXPECT_THAT(Values(states[1].value(), feeds), ElementsAre(3, 3, 0));
  for (const Shape& wrong : {Shape{2}, Shape{3, 1}}) {
    EXPECT_FALSE(session_.Run(outputs[1], {{lengths, Array::Zeros(DType::kU8, wrong)}}).ok());
  }
}

TEST_F(RnnTest, StaysWithinTheTypeOfItsInputs) {
  const Tensor x = Placeholder(DType::kBF16, {2, 3, 4});
  const auto [outputs, state] =
      DynamicRnn(rnn_cell::LSTMCell(5, {.use_peepholes = true, .num_proj = 2}), x,
                 {.sequence_length = Constant(Array::Of<int32_t>({2}, {3, 1}))});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(outputs.dtype(), DType::kBF16);
  EXPECT_EQ(state.c().dtype(), DType::kBF16);
  for (const Variable& v : GlobalVariables()) EXPECT_EQ(v.dtype(), DType::kBF16) << v.name();
  Initialize();
  const Tensor d = Gradients({outputs}, {GlobalVariables()[0]})[0];
  const std::vector<float> half(24, 0.5f);
  const FeedDict feeds{
      {x, *Array::Of<float>({2, 3, 4}, absl::MakeConstSpan(half)).Cast(DType::kBF16)}};
  for (const float value : Values(d, feeds)) EXPECT_TRUE(std::isfinite(value));
  EXPECT_THAT(Value(outputs, feeds).Slice(1, 2).Slice({{}, {1}}).item<float>({0, 0, 0}), 0);
}

TEST_F(RnnTest, StateOfAnotherTypeThanTheInputsIsAnError) {
  DynamicRnn(rnn_cell::GRUCell(3), Placeholder(DType::kF32, {2, 3, 4}), {.dtype = DType::kF64});
  EXPECT_NE(graph_.status(), absl::OkStatus());
}

TEST_F(RnnTest, CellKeepsItsVariablesAndCopiesShareThem) {
  const Tensor x = Placeholder(DType::kF32, {2, 3, 4});
  const RNNCell cell = rnn_cell::BasicLSTMCell(5), copy = cell;
  DynamicRnn(cell, x);
  DynamicRnn(copy, x, {.scope = "elsewhere"});
  StaticRnn(cell, Unstack(x, std::nullopt, 1));
  EXPECT_THAT(Names(), ElementsAre("rnn/basic_lstm_cell/kernel", "rnn/basic_lstm_cell/bias"));
  // Another graph has variables of its own.
  Graph other;
  const auto scope = other.AsDefault();
  DynamicRnn(cell, Placeholder(DType::kF32, {2, 3, 7}), {.scope = "other"});
  EXPECT_EQ(other.status(), absl::OkStatus());
  EXPECT_THAT(Names(), ElementsAre("other/basic_lstm_cell/kernel", "other/basic_lstm_cell/bias"));
}

TEST_F(RnnTest, CellsInOneScopeAreNumberedAndSecondNetworkIsAnError) {
  const Tensor x = Placeholder(DType::kF32, {2, 4});
  const RNNCell a = rnn_cell::GRUCell(3), b = rnn_cell::GRUCell(3), c = rnn_cell::BasicRNNCell(3);
  for (const RNNCell& cell : {a, b, a, c}) cell(x, cell.ZeroState(2));
  EXPECT_THAT(Names(), ElementsAre("gru_cell/gates/kernel", "gru_cell/gates/bias",
                                   "gru_cell/candidate/kernel", "gru_cell/candidate/bias",
                                   "gru_cell_1/gates/kernel", "gru_cell_1/gates/bias",
                                   "gru_cell_1/candidate/kernel", "gru_cell_1/candidate/bias",
                                   "basic_rnn_cell/kernel", "basic_rnn_cell/bias"));
  const Tensor steps = Placeholder(DType::kF32, {2, 3, 4});
  DynamicRnn(rnn_cell::GRUCell(3), steps);
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  DynamicRnn(rnn_cell::GRUCell(3), steps);
  EXPECT_THAT(GraphError(), HasSubstr("GetVariable 'rnn/gru_cell/gates/kernel'"));
  EXPECT_THAT(GraphError(), HasSubstr("it exists already"));
}

TEST_F(RnnTest, ReusesVariablesOfAnotherCell) {
  const Tensor x = Placeholder(DType::kF32, {2, 3, 4});
  DynamicRnn(rnn_cell::BasicRNNCell(3), x);
  DynamicRnn(rnn_cell::BasicRNNCell(3, {.reuse = Reuse::kReuse}), x);
  {
    const VariableScope again("", Reuse::kReuse);
    DynamicRnn(rnn_cell::BasicRNNCell(3), x);
  }
  EXPECT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(Names().size(), 2u);
  DynamicRnn(rnn_cell::BasicRNNCell(3, {.reuse = Reuse::kReuse, .name = "none"}), x);
  EXPECT_THAT(GraphError(), HasSubstr("it does not exist"));
}

TEST_F(RnnTest, ReusedVariablesOfAnotherShapeAreAnError) {
  const Tensor x = Placeholder(DType::kF32, {2, 3, 4});
  const RNNCell cell = rnn_cell::BasicRNNCell(3);
  DynamicRnn(cell, x);
  DynamicRnn(cell, Placeholder(DType::kF32, {2, 3, 5}));
  EXPECT_THAT(GraphError(), HasSubstr("it exists as float32[7,3]"));
}

TEST_F(RnnTest, DifferentiatesTheState) {
  const Tensor x = Constant(Array::Of<float>({1, 2, 1}, {1, 2}));
  const RNNCell cell(std::make_shared<Accumulator>());
  const Tensor start = Constant(Array::Of<float>({1, 1}, {5}));
  const auto [outputs, state] = DynamicRnn(cell, x, {.initial_state = start});
  const Tensors d = Gradients({ReduceSum(outputs) * state.value()},
                              {GlobalVariables()[0], start, outputs, state.value()});
  Initialize();
  EXPECT_THAT(Values(outputs), ElementsAre(6, 8));
  // y = (6 + 8) 8 with outputs = 5 + r, 5 + 3 r.
  EXPECT_THAT(Values(d[0]), ElementsAre(4 * 8 + 3 * 14));
  EXPECT_THAT(Values(d[1]), ElementsAre(2 * 8 + 14));
  EXPECT_THAT(Values(d[2]), ElementsAre(8, 8));
  EXPECT_THAT(Values(d[3]), ElementsAre(14));
}

TEST_F(RnnTest, ZeroStateHasTheStructureOfTheCell) {
  const RNNCell cell =
      rnn_cell::MultiRNNCell({rnn_cell::LSTMCell(4, {.num_proj = 2}), rnn_cell::GRUCell(3)});
  const Tensor x = Placeholder(DType::kF32, {-1, 3, 2});
  const State state = cell.ZeroState(GetItem(ShapeOf(x), {0}));
  EXPECT_EQ(state[0].c().shape(), PartialShape({-1, 4}));
  EXPECT_EQ(state[0].h().shape(), PartialShape({-1, 2}));
  EXPECT_EQ(state[-1].value().shape(), PartialShape({-1, 3}));
  EXPECT_EQ(cell.ZeroState(5, DType::kBF16)[1].value().dtype(), DType::kBF16);
  const auto [outputs, last] = DynamicRnn(cell, x, {.initial_state = state});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  Initialize();
  EXPECT_EQ(Value(outputs, {{x, Array::Zeros(DType::kF32, {5, 3, 2})}}).shape(), Shape({5, 3, 3}));
}

// ---- Dropout ----

TEST_F(RnnTest, DropsOtherElementsInEachStep) {
  const Tensor keep = Placeholder(DType::kF32, Shape());
  const RNNCell cell = rnn_cell::DropoutWrapper(RNNCell(std::make_shared<Accumulator>()),
                                                {.input_keep_prob = keep, .seed = 3});
  const auto [outputs, state] = DynamicRnn(cell, Ones({1, 1000, 1}));
  Initialize();
  EXPECT_THAT(Values(state.value(), {{keep, Array::Scalar(1.0f)}}), ElementsAre(1000));
  const float first = Values(state.value(), {{keep, Array::Scalar(0.5f)}})[0];
  EXPECT_NEAR(first, 1000, 150);
  EXPECT_NE(Values(state.value(), {{keep, Array::Scalar(0.5f)}})[0], first);  // in another Run
}

TEST_F(RnnTest, VariationalDropoutIsTheSameInAllSteps) {
  const RNNCell cell =
      rnn_cell::DropoutWrapper(RNNCell(std::make_shared<Accumulator>()),
                               {.input_keep_prob = 0.5, .variational_recurrent = true});
  const Tensor state = DynamicRnn(cell, Ones({2, 5, 1})).state.value();
  Initialize();
  std::set<std::vector<float>> seen;
  for (int run = 0; run < 32; ++run) seen.insert(Values(state));
  EXPECT_THAT(seen, ElementsAre(std::vector<float>{0, 0}, std::vector<float>{10, 10}));
}

TEST_F(RnnTest, StateDropoutSparesTheMemoryOfAnLstm) {
  const RNNCell cell = rnn_cell::DropoutWrapper(
      rnn_cell::BasicLSTMCell(400), {.output_keep_prob = 0.25, .state_keep_prob = 0.5, .seed = 1});
  const StepOutput step = cell(Ones({1, 1}), cell.ZeroState(1));
  Initialize();
  const auto got = session_.Run(Tensors{step.state.c(), step.state.h(), step.output});
  ASSERT_TRUE(got.ok()) << got.status();
  const auto zeros = [&](size_t i) {
    const auto values = (*got)[i].values<float>();
    return std::count(values.begin(), values.end(), 0.0f);
  };
  EXPECT_EQ(zeros(0), 0);
  EXPECT_NEAR(zeros(1), 200, 60);
  EXPECT_NEAR(zeros(2), 300, 60);
}

TEST_F(RnnTest, StateDropoutDropsEachStateOfTwoCells) {
  const RNNCell cell = rnn_cell::DropoutWrapper(
      rnn_cell::MultiRNNCell({rnn_cell::GRUCell(400), rnn_cell::GRUCell(400)}),
      {.state_keep_prob = 0.5, .seed = 1});
  const StepOutput step = cell(Ones({1, 1}), cell.ZeroState(1));
  Initialize();
  const auto got = session_.Run(Tensors{step.state[0].value(), step.state[1].value()});
  ASSERT_TRUE(got.ok()) << got.status();
  for (const Array& state : *got) {
    const auto values = state.values<float>();
    EXPECT_NEAR(static_cast<double>(std::count(values.begin(), values.end(), 0.0f)), 200, 60);
  }
}

// ---- Errors ----

TEST_F(RnnTest, SaysWhatIsWrong) {
  const auto message = [](const std::function<void()>& build) {
    Graph graph;
    const auto scope = graph.AsDefault();
    build();
    return std::string(graph.status().message());
  };
  const RNNCell gru = rnn_cell::GRUCell(3);
  const auto x = [](const PartialShape& shape) { return Placeholder(DType::kF32, shape); };
  EXPECT_THAT(message([&] {
                DynamicRnn(gru, x({2, 4}));
              }),
              HasSubstr("must be [batch, steps, depth] with a known depth, got float32[2,4]"));
  EXPECT_THAT(message([&] { DynamicRnn(gru, x({2, 4, -1})); }), HasSubstr("known depth"));
  EXPECT_THAT(message([&] { DynamicRnn(gru, Placeholder(DType::kF32)); }),
              HasSubstr("known depth"));
  EXPECT_THAT(message([&] { DynamicRnn(RNNCell(), x({2, 3, 4})); }), HasSubstr("invalid"));
  EXPECT_THAT(message([&] { DynamicRnn(gru, Tensor()); }), HasSubstr("invalid tensor"));
  EXPECT_THAT(message([&] { StaticRnn(gru, {}); }), HasSubstr("has no inputs"));
  EXPECT_THAT(message([&] {
                DynamicRnn(rnn_cell::MultiRNNCell({}), x({2, 3, 4}));
              }),
              HasSubstr("no cells"));
  EXPECT_THAT(message([&] {
                DynamicRnn(rnn_cell::GRUCell(0), x({2, 3, 4}));
              }),
              HasSubstr("its state has the sizes 0; each must be at least 1"));
  EXPECT_THAT(message([&] {
                DynamicRnn(rnn_cell::GRUCell(-1), x({2, 3, 4}));
              }),
              HasSubstr("its state has the sizes -1; each must be at least 1"));
  EXPECT_THAT(message([&] {
                DynamicRnn(gru, x({2, 3, 4}), {.sequence_length = x({2})});
              }),
              HasSubstr("sequence_length must be integers"));
  EXPECT_THAT(message([&] {
                DynamicRnn(gru, x({2, 3, 4}),
                           {.sequence_length = Constant(Array::Of<int32_t>({3}, {1, 2, 3}))});
              }),
              HasSubstr("sequence_length must be [batch], here [2], got"));
  EXPECT_THAT(message([&] {
                DynamicRnn(gru, x({2, 3, 4}),
                           {.initial_state = rnn_cell::LSTMStateTuple(x({2, 3}), x({2, 3}))});
              }),
              HasSubstr("its state has the sizes 3, and it gets a state of 2 tensors"));
  EXPECT_THAT(message([&] {
                DynamicRnn(gru, x({2, 3, 4}), {.initial_state = x({2, 5})});
              }),
              HasSubstr("its last extent must be 3"));
  EXPECT_THAT(message([&] {
                DynamicRnn(gru, x({2, 3, 4}), {.initial_state = x({4, 3})});
              }),
              HasSubstr("Concat"));
  EXPECT_THAT(message([&] {
                DynamicRnn(rnn_cell::DropoutWrapper(gru, {.output_keep_prob = 0}), x({2, 3, 4}));
              }),
              HasSubstr("a keep_prob must be above 0 and at most 1, got 0"));
  EXPECT_THAT(message([&] {
                DynamicRnn(rnn_cell::ResidualWrapper(gru), x({2, 3, 4}));
              }),
              HasSubstr("the output of its cell float32[2,3]"));
}

}  // namespace
}  // namespace rnn_test
}  // namespace penstock::session::nn
