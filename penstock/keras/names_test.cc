// The front end is complete: names.h is compared with nn's tables of names and with the functions
// declared in nn's headers.
#include "penstock/keras/names.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/keras/keras.h"
#include "penstock/nn/activations.h"
#include "penstock/nn/constraints.h"
#include "penstock/nn/initializers.h"
#include "penstock/nn/names.h"
#include "penstock/nn/regularizers.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace names_test {

using ::testing::IsEmpty;
using NameSet = std::set<std::string>;

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::filesystem::path kRooms = PENSTOCK_SOURCE_DIR "/penstock";

// The first capture group of every match.
NameSet Matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern, std::regex::multiline);
  NameSet found;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) {
    found.insert((*i)[1]);
  }
  return found;
}

// The names declared in each namespace of names.h; "" is keras itself.
std::map<std::string, NameSet> NamesByNamespace() {
  std::istringstream lines(ReadText(kRooms / "keras/names.h"));
  std::map<std::string, NameSet> names;
  std::vector<std::string> open;
  const std::regex begin("^(?:inline )?namespace (\\S+) \\{"), end("^\\}  // namespace"),
      name("^(?:using [\\w:]*::|inline Metric )(\\w+)[;(].*");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, begin)) {
      open.push_back(match[1] == "penstock::keras" ? "" : match[1].str());
    } else if (std::regex_search(line, end)) {
      open.pop_back();
    } else if (std::regex_match(line, match, name)) {
      names[open.empty() ? "" : open.back()].insert(match[1]);
    }
  }
  return names;
}

NameSet MissingIn(const NameSet& names, const NameSet& expected) {
  NameSet missing;
  for (const std::string& name : expected) {
    if (names.count(name) == 0) missing.insert(name);
  }
  return missing;
}

// Functions returning `type` that nn's headers declare at the start of a line.
NameSet Declared(const std::string& type) {
  NameSet found;
  for (const auto& file : std::filesystem::recursive_directory_iterator(kRooms / "nn")) {
    if (file.path().extension() != ".h") continue;
    found.merge(Matches(ReadText(file.path()), "^(?:inline )?" + type + " (\\w+)\\("));
  }
  return found;
}

// Class names from a table's rows: `{"huber", "Huber", ...`.
NameSet ClassesInTables(const std::string& folder) {
  NameSet found;
  for (const auto& file : std::filesystem::directory_iterator(kRooms / "nn" / folder)) {
    if (file.path().extension() != ".cc") continue;
    found.merge(Matches(ReadText(file.path()), "^    \\{\"[a-z0-9_]+\",\\s+\"([A-Z]\\w+)\""));
  }
  return found;
}

TEST(Names, HasEveryLayer) {
  const NameSet layers = NamesByNamespace()["layers"];
  const std::vector<std::string> classes = nn::LayerClassNames();
  NameSet expected(classes.begin(), classes.end());
  expected.merge(Declared("Layer"));
  // A network used as a layer is Nested; MakeLayer is internal to nn.
  expected.erase("Functional"), expected.erase("Sequential"), expected.erase("MakeLayer");
  // Keras exports this class as keras.layers.GroupQueryAttention.
  ASSERT_EQ(expected.erase("GroupedQueryAttention"), 1u);
  EXPECT_GT(expected.size(), 90u);
  EXPECT_THAT(MissingIn(layers, expected), IsEmpty()) << "add them to penstock/keras/names.h";
}

TEST(Names, HasEveryOptimizerAndSchedule) {
  auto names = NamesByNamespace();
  const std::vector<std::string> optimizers = nn::OptimizerNames(), schedules = nn::ScheduleNames();
  NameSet expected(optimizers.begin(), optimizers.end());
  expected.merge(Declared("Optimizer"));
  expected.erase("MakeOptimizer");  // internal to nn
  EXPECT_GT(expected.size(), 14u);
  EXPECT_THAT(MissingIn(names["optimizers"], expected), IsEmpty());
  NameSet rates(schedules.begin(), schedules.end());
  rates.merge(Declared("Schedule"));
  EXPECT_GT(rates.size(), 7u);
  EXPECT_THAT(MissingIn(names["schedules"], rates), IsEmpty());
}

TEST(Names, HasEveryLoss) {
  NameSet expected = ClassesInTables("losses");
  EXPECT_EQ(expected.size(), nn::Loss::Names().size() - 1);  // "crossentropy" is not a Keras class
  expected.merge(Declared("Loss"));
  EXPECT_THAT(MissingIn(NamesByNamespace()["losses"], expected), IsEmpty());
}

TEST(Names, HasEveryMetricUnderKerasName) {
  NameSet expected = ClassesInTables("metrics");
  EXPECT_EQ(expected.size(), nn::Metric::Names().size() - 1);  // "accuracy" is not a Keras class
  expected.merge(Declared("Metric"));
  // In nn, losses and metrics share a namespace. nn's Accuracy is "accuracy".
  for (const char* name : {"CosineSimilarity", "MeanSquaredError", "LogCoshError"}) {
    ASSERT_EQ(expected.erase(std::string(name) + "Metric"), 1u) << name;
    expected.insert(name);
  }
  ASSERT_EQ(expected.erase("ExactAccuracy"), 1u);
  EXPECT_THAT(MissingIn(NamesByNamespace()["metrics"], expected), IsEmpty());
}

// The names of typed values, spelled as in nn's table.
NameSet TypedValues(const std::string& type) {
  NameSet names;
  for (const std::string& name : Declared(type)) names.insert(name);
  return names;
}
void ExpectTyped(const std::vector<std::string>& table, const std::string& type) {
  const NameSet typed = TypedValues(type);
  EXPECT_EQ(typed.size(), table.size()) << type;
  for (const std::string& name : table) {
    bool found = false;
    for (const std::string& one : typed) found = found || nn::SameName(one, name);
    EXPECT_TRUE(found) << "nn/typed_options.h has no " << type << " '" << name << "'";
  }
}

TEST(Names, HasTypedValueForEveryNamedOption) {
  ExpectTyped(nn::InitializerNames(), "Initializer");
  ExpectTyped(nn::RegularizerNames(), "Regularizer");
  ExpectTyped(nn::ConstraintNames(), "Constraint");
  ExpectTyped(nn::ActivationNames(), "ActivationFunction");
  const NameSet flat = NamesByNamespace()[""];
  NameSet expected = TypedValues("Initializer");
  expected.merge(TypedValues("Regularizer"));
  expected.merge(TypedValues("Constraint"));
  expected.erase("Identity");  // keras::Identity is the layer
  EXPECT_THAT(MissingIn(flat, expected), IsEmpty());
}

TEST(Names, HasEveryCallback) {
  NameSet callbacks;
  for (const auto& file : std::filesystem::directory_iterator(kRooms / "train/callbacks")) {
    if (file.path().extension() != ".h") continue;
    callbacks.merge(Matches(ReadText(file.path()), "^std::shared_ptr<Callback> (\\w+)\\("));
  }
  EXPECT_GT(callbacks.size(), 8u);
  EXPECT_THAT(MissingIn(NamesByNamespace()["callbacks"], callbacks), IsEmpty());
}

TEST(Names, KerasMetricsMatchTable) {
  const std::pair<const char*, nn::Metric> rows[] = {
      {"Accuracy", metrics::Accuracy()},
      {"MeanSquaredError", metrics::MeanSquaredError()},
      {"MeanAbsoluteError", metrics::MeanAbsoluteError()},
      {"MeanAbsolutePercentageError", metrics::MeanAbsolutePercentageError()},
      {"MeanSquaredLogarithmicError", metrics::MeanSquaredLogarithmicError()},
      {"LogCoshError", metrics::LogCoshError()},
      {"CosineSimilarity", metrics::CosineSimilarity()},
      {"KLDivergence", metrics::KLDivergence()},
      {"Poisson", metrics::Poisson()},
      {"Hinge", metrics::Hinge()},
      {"SquaredHinge", metrics::SquaredHinge()},
      {"CategoricalHinge", metrics::CategoricalHinge()},
      {"BinaryCrossentropy", metrics::BinaryCrossentropy()},
      {"CategoricalCrossentropy", metrics::CategoricalCrossentropy()},
      {"SparseCategoricalCrossentropy", metrics::SparseCategoricalCrossentropy()}};
  for (const auto& [class_name, metric] : rows) {
    const auto want = nn::Metric::FromJson(
        {{"class_name", class_name}, {"config", nlohmann::ordered_json::object()}});
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_EQ(metric.ToJson(), want->ToJson()) << class_name;
    EXPECT_EQ(metric.direction(), want->direction()) << class_name;
  }
}

// Equal models with options as strings and as typed values.
Model WithStrings() {
  return Sequential({Input({.shape = {8, 8, 2}}), RandomFlip({.mode = "horizontal"}),
                     Conv2D({.filters = 4,
                             .kernel_size = 3,
                             .padding = "same",
                             .activation = "leaky_relu(0.1)",
                             .kernel_initializer = "he_normal",
                             .kernel_regularizer = "l2(0.0001)",
                             .kernel_constraint = "max_norm(3, [0, 1, 2])",
                             .dtype = "mixed_bfloat16"}),
                     UpSampling2D({.size = 2, .interpolation = "bilinear"}),
                     GlobalAveragePooling2D(),
                     Dense({.units = 2,
                            .activation = "softmax",
                            .kernel_initializer = "variance_scaling(2, fan_out, uniform)",
                            .bias_initializer = "constant(0.1)",
                            .activity_regularizer = "l1_l2(0.01, 0.02)"})});
}
Model WithTypedValues() {
  return Sequential({Input({.shape = {8, 8, 2}}), RandomFlip({.mode = FlipMode::kHorizontal}),
                     Conv2D({.filters = 4,
                             .kernel_size = 3,
                             .padding = Padding::kSame,
                             .activation = activations::LeakyRelu(0.1),
                             .kernel_initializer = HeNormal(),
                             .kernel_regularizer = L2(1e-4),
                             .kernel_constraint = MaxNorm(3, {0, 1, 2}),
                             .dtype = DTypePolicy::kMixedBfloat16}),
                     UpSampling2D({.size = 2, .interpolation = Interpolation::kBilinear}),
                     GlobalAveragePooling2D(),
                     Dense({.units = 2,
                            .activation = "softmax",
                            .kernel_initializer =
                                VarianceScaling({.scale = 2,
                                                 .mode = ScalingMode::kFanOut,
                                                 .distribution = ScalingDistribution::kUniform}),
                            .bias_initializer = Constant(0.1),
                            .activity_regularizer = L1L2(0.01, 0.02)})});
}

TEST(TypedOptions, MatchModelBuiltFromStrings) {
  const Model typed = WithTypedValues();
  ASSERT_TRUE(typed.network().status().ok()) << typed.network().status();
  EXPECT_EQ(typed.network().ToJson().dump(), WithStrings().network().ToJson().dump());
}

TEST(TypedOptions, EveryValueBuilds) {
  using namespace nn;
  for (const Initializer& initializer :
       {initializers::Zeros(), initializers::Ones(), initializers::Constant(0.1),
        initializers::RandomUniform(), initializers::RandomNormal(),
        initializers::TruncatedNormal(0, 1), initializers::VarianceScaling(),
        initializers::GlorotUniform(), initializers::GlorotNormal(), initializers::HeUniform(),
        initializers::HeNormal(), initializers::LecunUniform(), initializers::LecunNormal(),
        initializers::Orthogonal(), initializers::Identity(2)}) {
    EXPECT_TRUE(InitialValue(initializer, {DType::kF32, {3, 3}}, 0).ok()) << initializer;
  }
  const nn::Symbol x = nn::Input({.shape = {4}});
  for (const ActivationFunction& activation : {activations::Linear(),
                                               activations::Relu(),
                                               activations::Relu6(),
                                               activations::LeakyRelu(),
                                               activations::Elu(),
                                               activations::Selu(),
                                               activations::Celu(),
                                               activations::Gelu(true),
                                               activations::Silu(),
                                               activations::Mish(),
                                               activations::Softplus(),
                                               activations::Softsign(),
                                               activations::Squareplus(),
                                               activations::SparsePlus(),
                                               activations::Sigmoid(),
                                               activations::LogSigmoid(),
                                               activations::HardSigmoid(),
                                               activations::HardSilu(),
                                               activations::SparseSigmoid(),
                                               activations::Tanh(),
                                               activations::HardTanh(),
                                               activations::TanhShrink(),
                                               activations::HardShrink(),
                                               activations::SoftShrink(),
                                               activations::Threshold(1, -1.5),
                                               activations::Exponential(),
                                               activations::Softmax(),
                                               activations::LogSoftmax(),
                                               activations::Sparsemax(),
                                               activations::Glu()}) {
    EXPECT_TRUE(nn::Activation({.activation = activation})(x).type().ok()) << activation;
  }
  for (const Regularizer& regularizer :
       {regularizers::L1(), regularizers::L2(), regularizers::L1L2(),
        regularizers::OrthogonalRegularizer(0.1, OrthogonalMode::kColumns)}) {
    for (const Constraint& constraint :
         {constraints::MaxNorm(), constraints::NonNeg(), constraints::UnitNorm({0, 1}),
          constraints::MinMaxNorm({.rate = 0.5})}) {
      Model model({x}, {nn::Dense({.units = 2,
                                   .kernel_regularizer = regularizer,
                                   .kernel_constraint = constraint})(x)});
      EXPECT_TRUE(model.Compile({.loss = "mse", .client = runtime::TestClient(1)}).ok())
          << regularizer << constraint;
    }
  }
}

// The types that nn/typed_options.h declares.
TEST(Names, HasEveryTypeOfOption) {
  const NameSet types =
      Matches(ReadText(kRooms / "nn/typed_options.h"), "^struct (\\w+) : NamedOption<");
  EXPECT_GT(types.size(), 20u);
  EXPECT_THAT(MissingIn(NamesByNamespace()[""], types), IsEmpty());
}

// Calls `use` with the value of each enumerator and with its name as a string.
template <typename Option, typename Use>
void ForEachName(Use use) {
  int value = 0;
  for (const char* name : Option::kNames) {
    const Option typed = static_cast<typename Option::Value>(value++);
    EXPECT_EQ(typed, std::string(name));
    use(typed, Option(name));
  }
}

TEST(TypedOptions, EveryReductionIsKnownToLosses) {
  ForEachName<Reduction>([](const Reduction& typed, const Reduction& text) {
    const nn::Loss loss = keras::MeanSquaredError({.reduction = typed});
    EXPECT_TRUE(loss.Check().ok()) << loss.Check();
    for (const nn::Loss& same : {keras::MeanSquaredError({.reduction = text}),
                                 keras::MeanSquaredError().WithReduction(typed)}) {
      EXPECT_EQ(loss.ToJson().dump(), same.ToJson().dump());
    }
    EXPECT_TRUE(nn::Loss::FromJson(loss.ToJson()).ok()) << typed;
  });
  // Files contain the name.
  EXPECT_EQ(keras::MeanSquaredError({.reduction = Reduction::kSum}).ToJson().dump(),
            R"({"name":"mean_squared_error","config":{"reduction":"sum"}})");
  EXPECT_EQ(keras::MeanSquaredError().ToJson().dump(),
            R"({"name":"mean_squared_error","config":{"reduction":"sum_over_batch_size"}})");
  EXPECT_FALSE(keras::MeanSquaredError().WithReduction("sums").Check().ok());
  EXPECT_EQ(keras::MeanSquaredError().WithReduction(absl::string_view("none")).reduction(), "none");
}

TEST(TypedOptions, EveryChoiceIsKnownToMetrics) {
  ForEachName<AucCurve>([](const AucCurve& curve, const AucCurve& curve_name) {
    ForEachName<AucSummationMethod>(
        [&](const AucSummationMethod& method, const AucSummationMethod& method_name) {
          const nn::Metric typed = metrics::AUC({.curve = curve, .summation_method = method});
          EXPECT_TRUE(typed.Check().ok()) << typed.Check();
          EXPECT_EQ(
              typed.ToJson().dump(),
              metrics::AUC({.curve = curve_name, .summation_method = method_name}).ToJson().dump());
        });
  });
  ForEachName<ClassAverage>([](const ClassAverage& typed, const ClassAverage& text) {
    EXPECT_TRUE(metrics::F1Score({.average = typed}).Check().ok()) << typed;
    EXPECT_EQ(metrics::FBetaScore({.average = typed, .beta = 2}).ToJson().dump(),
              metrics::FBetaScore({.average = text, .beta = 2}).ToJson().dump());
  });
  ForEachName<ClassAggregation>([](const ClassAggregation& typed, const ClassAggregation& text) {
    const nn::Metric score = metrics::R2Score({.class_aggregation = typed});
    EXPECT_TRUE(score.Check().ok()) << typed;
    EXPECT_EQ(score.ToJson().dump(), metrics::R2Score({.class_aggregation = text}).ToJson().dump());
  });
  EXPECT_EQ(metrics::AUC({.curve = AucCurve::kPR}).ToJson()["config"]["curve"].dump(), "\"PR\"");
}

TEST(TypedOptions, EveryChoiceIsKnownToSchedulesInitializersAndPlots) {
  ForEachName<AnnealStrategy>([](const AnnealStrategy& typed, const AnnealStrategy& text) {
    const auto make = [](const AnnealStrategy& strategy) {
      return OneCycle({.max_learning_rate = 1, .total_steps = 10, .anneal_strategy = strategy});
    };
    EXPECT_TRUE(make(typed).Check().ok()) << make(typed).Check();
    EXPECT_EQ(make(typed).ToJson().dump(), make(text).ToJson().dump());
  });
  ForEachName<ScalingMode>([](const ScalingMode& mode, const ScalingMode& mode_name) {
    ForEachName<ScalingDistribution>(
        [&](const ScalingDistribution& distribution, const ScalingDistribution& name) {
          const Initializer typed = VarianceScaling({.mode = mode, .distribution = distribution});
          EXPECT_TRUE(nn::InitialValue(typed, {base::DType::kF32, {3, 3}}, 0).ok()) << typed;
          EXPECT_EQ(typed, VarianceScaling({.mode = mode_name, .distribution = name}));
        });
  });
  ForEachName<OrthogonalMode>([](const OrthogonalMode& typed, const OrthogonalMode& text) {
    EXPECT_EQ(OrthogonalRegularizer(0.1, typed), OrthogonalRegularizer(0.1, text));
  });
  const Model model = Sequential({Input({.shape = {4}}), Dense({.units = 2})});
  ForEachName<RankDir>([&](const RankDir& typed, const RankDir& text) {
    EXPECT_THAT(model.ToDot({.rankdir = typed}), ::testing::HasSubstr("rankdir=" + text + ";"));
  });
}

// Values of another kind or plain numbers do not compile.
static_assert(std::is_convertible_v<const char*, nn::Initializer>);
static_assert(std::is_convertible_v<std::string, nn::Initializer>);
static_assert(!std::is_convertible_v<nn::Regularizer, nn::Initializer>);
static_assert(!std::is_convertible_v<nn::Constraint, nn::Regularizer>);
static_assert(!std::is_convertible_v<nn::Padding, nn::FillMode>);
static_assert(!std::is_convertible_v<nn::FillMode::Value, nn::Padding>);
static_assert(!std::is_convertible_v<std::nullptr_t, nn::Padding>);
static_assert(std::is_convertible_v<absl::string_view, nn::Reduction>);
static_assert(!std::is_convertible_v<nn::AucCurve::Value, nn::AucSummationMethod>);
static_assert(!std::is_convertible_v<nn::Padding, nn::Reduction>);
static_assert(!std::is_convertible_v<nn::Reduction::Value, MatmulPrecisionArg>);

// A metric has no reduction, as in Keras.
template <typename Options>
concept HasReduction = requires(Options options) {
  options.reduction;
};
static_assert(HasReduction<nn::CrossentropyOptions>);
static_assert(!HasReduction<nn::CrossentropyMetricOptions>);
static_assert(!HasReduction<nn::SparseCrossentropyMetricOptions>);
static_assert(!HasReduction<nn::CorrelationOptions>);

// The spelling that a Keras user tries first.
TEST(Names, KerasModulesAreNamespaces) {
  Model model = Sequential({Input({.shape = {4}}), keras::layers::Dense({.units = 2})});
  EXPECT_TRUE(model
                  .Compile({.optimizer = keras::optimizers::AdamW(
                                {.learning_rate = keras::optimizers::schedules::CosineDecay(
                                     {.initial_learning_rate = 1e-3, .decay_steps = 100}),
                                 .weight_decay = 0.05,
                                 .exclude_from_weight_decay = {"bias"},
                                 .global_clipnorm = 1.0}),
                            .loss = keras::losses::Huber(),
                            .metrics = {keras::metrics::MeanSquaredError()},
                            .client = runtime::TestClient(1)})
                  .ok());
}

}  // namespace names_test
}  // namespace penstock::keras
