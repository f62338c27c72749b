#include "penstock/session/variable.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/nn/initializers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace variable_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VariableTest : public testing::Test {
 protected:
  float Value(const Tensor& fetch) {
    const absl::StatusOr<Array> got = session_.Run(fetch);
    if (!got.ok()) ADD_FAILURE() << got.status();
    return got.ok() ? got->item<float>() : -1;
  }
  void Initialize() { ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus()); }
  std::string Error() const { return std::string(graph_.status().message()); }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_{"", {.client = runtime::TestClient(1)}};
};

TEST_F(VariableTest, TheVariableNamedGlobalStepIsTheGlobalStep) {
  EXPECT_FALSE(GetGlobalStep().valid());
  const Variable step(Array::Scalar<int32_t>(0), "global_step", {.trainable = false});
  EXPECT_EQ(GetGlobalStep(), step);
  EXPECT_EQ(GetOrCreateGlobalStep(), step);
  EXPECT_EQ(GlobalVariables(), Variables{step});
}

TEST_F(VariableTest, AGlobalStepIsAnIntegerWithoutAxes) {
  const Variable wrong(Array::Scalar(0.0f), "global_step");
  EXPECT_FALSE(GetGlobalStep().valid());
  EXPECT_THAT(Error(), HasSubstr("'global_step' is float32"));
}

// The names are those of TensorFlow 1.15.
TEST_F(VariableTest, NamesVariablesAsTensorFlowDoes) {
  const Array zero = Array::Scalar(0.0f);
  EXPECT_EQ(Variable(zero).name(), "Variable:0");
  const Variable second(zero);
  EXPECT_EQ(second.name(), "Variable_1:0");
  EXPECT_EQ(second.initial_value().name(), "Variable_1/initial_value:0");
  EXPECT_EQ(second.initializer().name(), "Variable_1/Assign");
  {
    const NameScope scope("ops");
    EXPECT_EQ(Variable(zero, "v").name(), "ops/v:0");
    EXPECT_EQ(GetVariable("g", {2}).name(), "g:0");
  }
  {
    const VariableScope outer("a");
    EXPECT_EQ(GetVariable("w", {2}).name(), "a/w:0");
    EXPECT_EQ(Constant(1.0, "c").name(), "a/c:0");
    const VariableScope inner("b");
    EXPECT_EQ(GetVariable("w", {2}).name(), "a/b/w:0");
  }
  const VariableScope again("a", Reuse::kAuto);
  EXPECT_EQ(GetVariable("w", {2}).name(), "a/w:0");
  EXPECT_EQ(GetVariable("u", {2}).name(), "a/u:0");
  EXPECT_EQ(Constant(1.0, "c").name(), "a_1/c:0");
  EXPECT_EQ(graph_.status(), absl::OkStatus());
}

TEST_F(VariableTest, SharesByReuse) {
  Variable first;
  {
    const VariableScope scope("s");
    first = GetVariable("w", {2, 3});
  }
  {
    VariableScope scope("s");
    scope.ReuseVariables();
    EXPECT_EQ(GetVariable("w", {2, 3}), first);
    GetVariable("missing", {2}, DType::kF32, nullptr, {}, {"train.cc", 8});
  }
  EXPECT_THAT(Error(), HasSubstr("GetVariable 's/missing' (train.cc:8): it does not exist, and the "
                                 "scope reuses variables only"));
}

TEST_F(VariableTest, RejectsASecondVariableWithoutReuse) {
  GetVariable("w", {2}, DType::kF32, nullptr, {}, {"train.cc", 1});
  GetVariable("w", {2}, DType::kF32, nullptr, {}, {"train.cc", 2});
  EXPECT_THAT(Error(), HasSubstr("GetVariable 'w' (train.cc:2): it exists already (train.cc:1)"));
}

TEST_F(VariableTest, RejectsReuseWithAnotherShape) {
  const VariableScope scope("s", Reuse::kAuto);
  GetVariable("w", {2}, DType::kF32, nullptr, {}, {"train.cc", 1});
  GetVariable("w", {3}, DType::kF32, nullptr, {}, {"train.cc", 2});
  EXPECT_THAT(Error(), HasSubstr("it exists as float32[2] (train.cc:1), not float32[3]"));
}

TEST_F(VariableTest, RejectsAnInitialValueOfUnknownShape) {
  const Variable w(Placeholder(DType::kF32, {-1, 2}, "x"), "w", {}, {"train.cc", 5});
  EXPECT_FALSE(w.valid());
  EXPECT_THAT(Error(), HasSubstr("Variable 'w' (train.cc:5): its initial value is float32[?,2]; a "
                                 "variable needs a shape"));
}

TEST_F(VariableTest, RejectsAssignmentsOfOtherTypes) {
  const Variable w(Array::Zeros(DType::kF32, {2}), "w");
  Assign(w, Constant({1.0, 2.0, 3.0}), "", {"train.cc", 5});
  EXPECT_THAT(Error(), HasSubstr("Assign 'w/Assign' (train.cc:5): the variable is float32[2], the "
                                 "value float32[3]"));
}

TEST_F(VariableTest, AReadSeesTheAssignmentsThatItDependsOn) {
  const Variable w(Array::Scalar(1.0f), "w");
  const Tensor before = Identity(w);
  const Tensor up = AssignAdd(w, Constant(10.0));
  Tensor after;
  {
    const ControlDependencies depends(Operations{up});
    after = Identity(w);
  }
  const Tensor independent = Add(w, Constant(0.0));  // made later, but does not depend on it
  Initialize();
  const auto got = session_.Run({before, up, after, independent});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].item<float>(), 1);
  EXPECT_EQ((*got)[1].item<float>(), 11);
  EXPECT_EQ((*got)[2].item<float>(), 11);
  EXPECT_EQ((*got)[3].item<float>(), 1);
  // Data dependencies count, too.
  const ControlDependencies depends(Operations{Add(up, Constant(1.0))});
  const Tensor read = w.Value();
  EXPECT_EQ(Value(read), 21);
}

TEST_F(VariableTest, AppliesAllUpdatesOfOneRun) {
  const Variable w(Array::Scalar(1.0f), "w");
  const Operation all = Group({AssignAdd(w, Constant(10.0)), AssignSub(w, Constant(3.0)),
                               AssignAdd(w, Multiply(w, Constant(100.0)))});
  Initialize();
  ASSERT_EQ(session_.Run(all), absl::OkStatus());
  EXPECT_EQ(Value(w), 1 + 10 - 3 + 100);
}

TEST_F(VariableTest, SwapsVariables) {
  const Variable a(Array::Scalar(1.0f), "a"), b(Array::Scalar(2.0f), "b");
  const Operation swap = Group({Assign(a, b), Assign(b, a)});
  Initialize();
  ASSERT_EQ(session_.Run(swap), absl::OkStatus());
  EXPECT_EQ(Value(a), 2);
  EXPECT_EQ(Value(b), 1);
}

TEST_F(VariableTest, AVariableCanBeFed) {
  const Variable w(Array::Scalar(1.0f), "w");
  const Tensor y = Multiply(w, Constant(3.0));
  const absl::StatusOr<Array> got = session_.Run(y, {{w, Array::Scalar(5.0f)}});
  ASSERT_TRUE(got.ok()) << got.status();  // it needs no value of its own
  EXPECT_EQ(got->item<float>(), 15);
}

TEST_F(VariableTest, InitializersAreThoseOfRoomNn) {
  graph_.SetRandomSeed(7);
  const Variable g = GetVariable("g", {64, 32}, DType::kF32, GlorotUniformInitializer(11));
  const Variable n = GetVariable("n", {3}, DType::kF32, RandomNormalInitializer(1.5, 0.25, 12));
  const Variable c = GetVariable("c", {2}, DType::kI32, ConstantInitializer(4.0));
  const Variable t = GetVariable("t", {2, 2}, DType::kF32,
                                 ConstantInitializer(Array::Of<double>({4}, {1, 2, 3, 4})));
  const Variable v = GetVariable(
      "v", {8, 2}, DType::kF32,
      VarianceScalingInitializer({.scale = 2, .mode = "fan_out", .distribution = "uniform"}));
  const Variable i = GetVariable("i", {2}, DType::kI32);
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  Initialize();
  const auto value = [&](const Variable& w) { return session_.Run(w.Value()).value(); };
  EXPECT_TRUE(base::BitwiseEqual(
      value(g), penstock::nn::InitialValue("glorot_uniform", {DType::kF32, {64, 32}}, 11).value()));
  EXPECT_TRUE(base::BitwiseEqual(
      value(n),
      penstock::nn::InitialValue("random_normal(mean=1.5, stddev=0.25)", {DType::kF32, {3}}, 12)
          .value()));
  const Array constant = value(c), table = value(t), scaled = value(v), zeros = value(i);
  EXPECT_THAT(constant.values<int32_t>(), ElementsAre(4, 4));
  EXPECT_THAT(table.values<float>(), ElementsAre(1, 2, 3, 4));
  for (float x : scaled.values<float>()) EXPECT_LE(std::abs(x), std::sqrt(3.0f));
  EXPECT_THAT(zeros.values<int32_t>(), ElementsAre(0, 0));  // the default for integers
}

TEST_F(VariableTest, ChecksArgumentsOfInitializers) {
  GetVariable("w", {2, 2}, DType::kF32, VarianceScalingInitializer({.mode = "fan"}), {},
              {"train.cc", 3});
  EXPECT_THAT(Error(), HasSubstr("(train.cc:3)"));
  EXPECT_THAT(Error(), HasSubstr("mode must be fan_in, fan_out or fan_avg, got 'fan'"));
}

TEST_F(VariableTest, InitializersDifferInEachRunAndRepeatWithASeed) {
  const Variable w = GetVariable("w", {4});
  Initialize();
  const Array first = session_.Run(w).value();
  Initialize();
  EXPECT_FALSE(base::BitwiseEqual(first, session_.Run(w).value()));
  // Without a seed each session has other numbers, with one the same.
  for (bool seeded : {false, true}) {
    if (seeded) graph_.SetRandomSeed(3);
    Array values[2];
    for (Array& value : values) {
      Session session("", {.client = runtime::TestClient(1)});
      ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
      value = session.Run(w).value();
    }
    EXPECT_EQ(base::BitwiseEqual(values[0], values[1]), seeded);
  }
}

TEST_F(VariableTest, AnInitialValueOfAnotherVariableIsAvailable) {
  const Variable a = GetVariable("a", {2});
  const Variable twice(Multiply(a.initial_value(), Constant(2.0)), "twice");
  const Variable wrong(Multiply(a, Constant(2.0)), "wrong");
  EXPECT_THAT(std::string(session_.Run(GlobalVariablesInitializer()).message()),
              HasSubstr("the variable 'a' has no value at the start of this Run; to compute an "
                        "initial value from another variable, use its initial_value()"));
  ASSERT_EQ(session_.Run(VariablesInitializer({a, twice})), absl::OkStatus());
  EXPECT_EQ(session_.Run(twice).value().item<float>({0}),
            2 * session_.Run(a).value().item<float>({0}));
}

TEST_F(VariableTest, KeepsCollectionsOfVariables) {
  const Variable w(Array::Scalar(1.0f), "s/w"),
      frozen(Array::Scalar(1.0f), "f", {.trainable = false});
  const Variable local(Array::Scalar(1.0f), "l",
                       {.trainable = false, .collections = {graph_keys::kLocalVariables}});
  const Variable step = GetOrCreateGlobalStep();
  EXPECT_EQ(GetOrCreateGlobalStep(), step);
  EXPECT_EQ(GetGlobalStep().name(), "global_step:0");
  EXPECT_EQ(step.dtype(), DType::kI64);
  EXPECT_EQ(GlobalVariables(), (Variables{w, frozen, step}));
  EXPECT_EQ(TrainableVariables(), Variables{w});
  EXPECT_TRUE(TrainableVariables("t").empty());
  EXPECT_EQ(LocalVariables(), Variables{local});
  EXPECT_THAT(session_.UninitializedVariables(), ElementsAre("s/w", "f", "l", "global_step"));
  Initialize();
  EXPECT_THAT(session_.UninitializedVariables(), ElementsAre("l"));
  ASSERT_EQ(session_.Run(LocalVariablesInitializer()), absl::OkStatus());
  EXPECT_TRUE(session_.UninitializedVariables().empty());
}

TEST_F(VariableTest, ListsVariablesOfACollectionByScope) {
  const Variable d(Array::Scalar(1.0f), "discriminator/w"), g(Array::Scalar(1.0f), "generator/w"),
      own(Array::Scalar(1.0f), "generator/own", {.trainable = false, .collections = {"mine"}});
  EXPECT_EQ(GlobalVariables("generator"), Variables{g});
  EXPECT_EQ(TrainableVariables("discriminator/"), Variables{d});
  EXPECT_EQ(GetCollectionVariables("mine"), Variables{own});
  graph_.AddToCollection("mine", d);
  graph_.AddToCollection("mine", d.ReadValue());
  graph_.AddToCollection("mine", Constant(1.0));
  EXPECT_EQ(GetCollectionVariables("mine"), (Variables{own, d}));
  EXPECT_TRUE(GetCollectionVariables("mine", "x").empty());
}

// tf.variable_scope(tf.get_variable_scope()), as towers use it.
TEST_F(VariableTest, AnEmptyScopeEntersTheScopeAroundItAgain) {
  std::vector<std::string> variables, operations;
  {
    VariableScope towers("");
    for (int i = 0; i < 2; ++i) {
      const NameScope names("tower");
      const VariableScope layer("layer");
      variables.push_back(GetVariable("w", {2}).name());
      operations.push_back(Constant(1.0, "c").name());
      towers.ReuseVariables();
    }
  }
  EXPECT_THAT(variables, ElementsAre("layer/w:0", "layer/w:0"));
  EXPECT_THAT(operations, ElementsAre("tower/layer/c:0", "tower_1/layer/c:0"));
  const VariableScope outer("outer");
  for (int i = 0; i < 2; ++i) {
    const VariableScope again("", Reuse::kAuto);
    // Its default names begin again.
    const VariableScope layer(std::nullopt, "dense");
    EXPECT_EQ(GetVariable("w", {2}).name(), "outer/dense/w:0");
  }
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  GetVariable("w", {2});
  GetVariable("w", {2});
  EXPECT_THAT(Error(), HasSubstr("GetVariable 'outer/w'"));
}

TEST_F(VariableTest, RejectsAnInitialValueOfAnotherType) {
  const Initializer ones = [](const Shape&, DType) { return Constant({1.0, 1.0}); };
  GetVariable("w", {2}, DType::kI32, ones, {}, {"train.cc", 2});
  EXPECT_EQ(Error(),
            "GetVariable 'w' (train.cc:2): its initializer returns float32[2], not int32[2]");
}

TEST_F(VariableTest, RejectsAVariableWithoutAName) {
  GetVariable("", {2}, DType::kF32, nullptr, {}, {"train.cc", 3});
  EXPECT_EQ(Error(), "GetVariable '' (train.cc:3): a variable needs a name");
}

// Random integers need a limit, and other initializers make fractions, which would become 0.
TEST_F(VariableTest, InitializersOfFloatsRejectIntegers) {
  const Variable w = GetVariable("w", {1000}, DType::kF32, RandomUniformInitializer());
  const Variable n = GetVariable("n", {1000}, DType::kI32, RandomUniformInitializer(2, 9));
  Initialize();
  const Array floats = *session_.Run(w.Value()), integers = *session_.Run(n.Value());
  const auto [low, high] =
      std::minmax_element(floats.values<float>().begin(), floats.values<float>().end());
  EXPECT_GE(*low, 0);  // TensorFlow 1's default: from 0 to 1
  EXPECT_LT(*low, 0.1);
  EXPECT_GT(*high, 0.9);
  const auto [least, most] =
      std::minmax_element(integers.values<int32_t>().begin(), integers.values<int32_t>().end());
  EXPECT_EQ(*least, 2);
  EXPECT_EQ(*most, 8);
  for (const Initializer& initializer :
       {GlorotUniformInitializer(), RandomUniformInitializer(), RandomNormalInitializer()}) {
    Graph graph;
    const auto scope = graph.AsDefault();
    GetVariable("w", {2}, DType::kI32, initializer, {}, {"train.cc", 4});
    EXPECT_THAT(std::string(graph.status().message()),
                HasSubstr("(train.cc:4): it makes floats, but the variable is int32"));
  }
}

}  // namespace
}  // namespace variable_test
}  // namespace penstock::session
