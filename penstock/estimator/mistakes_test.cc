// Programs with mistakes: one sentence each, before the first step where that is possible.
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_estimator.h"
#include "penstock/estimator/train_and_evaluate.h"
#include "penstock/session/ops/core_ops.h"

namespace penstock::estimator {
namespace mistakes_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::SmallModelFn;
using testing::TestBatches;
using testing::TrainBatches;

class Mistakes : public testing::SmallEstimatorTest {
 protected:
  std::string TrainError(ModelFn model_fn, const InputFn& input = TrainBatches()) {
    Estimator estimator = Make(std::move(model_fn));
    return SmallEstimatorTest::TrainError(estimator, {.steps = 1}, input);
  }
};

TEST_F(Mistakes, OfSteps) {
  Estimator estimator = Make(SmallModelFn);
  EXPECT_THAT(estimator.Train(TrainBatches(), {.steps = 1, .max_steps = 2}).message(),
              HasSubstr("steps = 1 and max_steps = 2; give one of them"));
  EXPECT_THAT(estimator.Train(TrainBatches(), {.steps = 0}).message(), HasSubstr("steps is 0"));
  EXPECT_THAT(estimator.Train(TrainBatches(), {.max_steps = -3}).message(),
              HasSubstr("max_steps is -3"));
  EXPECT_THAT(estimator.Evaluate(TestBatches(), {.steps = 0}).status().message(),
              HasSubstr("steps is 0"));
}

TEST_F(Mistakes, OfTheSpec) {
  const auto with = [](auto change) {
    return [change](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
      EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
      change(spec);
      return spec;
    };
  };
  EXPECT_THAT(TrainError(with([](EstimatorSpec& spec) { spec.train_op = {}; })),
              HasSubstr("returned no train_op for mode 'train'"));
  EXPECT_THAT(TrainError(with([](EstimatorSpec& spec) { spec.loss = {}; })),
              HasSubstr("returned no loss for mode 'train'"));
  EXPECT_THAT(TrainError(with([](EstimatorSpec& spec) { spec.mode = ModeKeys::kEval; })),
              HasSubstr("a spec of mode 'eval' when it was called for mode 'train'"));
  EXPECT_THAT(
      TrainError(with([](EstimatorSpec& spec) { spec.loss = spec.predictions["probabilities"]; })),
      AllOf(HasSubstr("has the shape [?,3]"), HasSubstr("must be a scalar")));
  Estimator no_loss = Make(with([](EstimatorSpec& spec) { spec.loss = {}; }));
  EXPECT_THAT(no_loss.Evaluate(TestBatches()).status().message(),
              HasSubstr("returned no loss for mode 'eval'"));
  Estimator nothing = Make(with([](EstimatorSpec& spec) { spec.predictions = {}; }));
  EXPECT_THAT(nothing.Predict(TestBatches()).status().message(),
              HasSubstr("returned no predictions for mode 'infer'"));
}

TEST_F(Mistakes, ATrainOpOfAnotherGraph) {
  session::Graph other;
  session::Operation train_op;
  {
    const auto scope = other.AsDefault();
    train_op = session::Operation(session::GetOrCreateGlobalStep().Value());
  }
  EXPECT_THAT(
      TrainError([&](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
        spec.train_op = train_op;
        return spec;
      }),
      HasSubstr("of another graph or mode"));
}

TEST_F(Mistakes, OfTheInput) {
  EXPECT_THAT(TrainError(SmallModelFn, TrainBatches().Take(0)),
              HasSubstr("the input_fn's dataset is empty"));
  EXPECT_THAT(Make(SmallModelFn).Evaluate(TestBatches().Take(0)).status().message(),
              HasSubstr("the input_fn's dataset is empty"));
  EXPECT_THAT(TrainError(SmallModelFn, data::Dataset::FromArrays(testing::Flowers(4))),
              HasSubstr("end the dataset in Batch"));
  base::NamedArrays unlabeled = {{"x", *testing::Flowers(8).Find("x")}};
  EXPECT_THAT(TrainError(SmallModelFn, data::Dataset::FromArrays(unlabeled).Batch(4)),
              HasSubstr("there are no labels: the input_fn's dataset has the columns x; name one "
                        "of them 'label'"));
  EXPECT_THAT(TrainError(SmallModelFn, InputFn(TrainBatches(), {.labels = {"class"}})),
              HasSubstr("InputOptions.labels names the column 'class'"));
  EXPECT_THAT(
      TrainError(SmallModelFn,
                 [](const Params& params) { return TrainBatches(96, params["batch_size"]); }),
      HasSubstr("params has no 'batch_size'"));
  EXPECT_THAT(TrainError(SmallModelFn,
                         []() -> absl::StatusOr<data::Dataset> {
                           return absl::NotFoundError("no such file");
                         }),
              HasSubstr("input_fn: no such file"));
  EXPECT_THAT(TrainError(SmallModelFn, std::function<data::Dataset()>()),
              HasSubstr("there is no input_fn"));
  // The strings are in a column that the model does not use, too.
  EXPECT_THAT(
      TrainError([](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        (void)features["y"];
        return SmallModelFn(features, labels, mode, {});
      }),
      HasSubstr("there is no 'y' among the features; the features are x"));
}

TEST_F(Mistakes, OfTheModelFn) {
  EXPECT_THAT(TrainError([](const NamedTensors&, const NamedTensors&,
                            ModeKeys) -> absl::StatusOr<EstimatorSpec> {
                return absl::InvalidArgumentError("no layers");
              }),
              HasSubstr("model_fn: no layers"));
  EXPECT_THAT(
      TrainError([](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        session::MatMul(features["x"], session::Zeros({3, 3}));
        return SmallModelFn(features, labels, mode, {});
      }),
      HasSubstr("mistakes_test.cc"));
  EXPECT_THAT(TrainError(ModelFn()), HasSubstr("has no model_fn"));
  const std::function<EstimatorSpec(const NamedTensors&, const NamedTensors&, ModeKeys)> none;
  EXPECT_THAT(TrainError(none), HasSubstr("has no model_fn"));
  EstimatorSpec (*const pointer)(const NamedTensors&, const NamedTensors&, ModeKeys) = nullptr;
  EXPECT_THAT(TrainError(pointer), HasSubstr("has no model_fn"));
}

TEST_F(Mistakes, ATrainOpThatDoesNotCount) {
  Estimator estimator =
      Make([](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
        spec.train_op = session::train::GradientDescentOptimizer(0.1).Minimize(spec.loss);
        return spec;
      });
  EXPECT_THAT(estimator.Train(TrainBatches(), {.steps = 5}).message(),
              HasSubstr("pass GetGlobalStep() to Minimize"));
}

TEST_F(Mistakes, OfTheConfig) {
  RunConfig both = QuietConfig();
  both.save_checkpoints_steps = 5;
  both.save_checkpoints_secs = 5;
  EXPECT_THAT(Make(SmallModelFn, both).Train(TrainBatches(), {.steps = 1}).message(),
              HasSubstr("save_checkpoints_steps = 5 and save_checkpoints_secs = 5"));
  RunConfig other = QuietConfig();
  other.model_dir = "/elsewhere";
  EXPECT_THAT(Make(SmallModelFn, other).status().message(),
              HasSubstr("RunConfig.model_dir is '/elsewhere'; give one of them"));
  RunConfig negative = QuietConfig();
  negative.keep_checkpoint_max = -1;
  EXPECT_THAT(Make(SmallModelFn, negative).status().message(),
              HasSubstr("keep_checkpoint_max is -1"));
  RunConfig hours = QuietConfig();
  hours.keep_checkpoint_every_n_hours = 0;
  EXPECT_THAT(Make(SmallModelFn, hours).status().message(),
              HasSubstr("keep_checkpoint_every_n_hours is 0"));
  RunConfig devices = QuietConfig();
  devices.session_config = {.cpu_devices = 0};
  EXPECT_THAT(Make(SmallModelFn, devices).Train(TrainBatches(), {.steps = 1}).message(),
              HasSubstr("cpu_devices is 0"));
}

TEST_F(Mistakes, AModelDirThatCannotBeWritten) {
  std::ofstream(dir()) << "a file";
  int calls = 0;
  Estimator estimator =
      Make([&calls](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        ++calls;
        return SmallModelFn(features, labels, mode, {});
      });
  EXPECT_FALSE(estimator.Train(TrainBatches(), {.steps = 1}).ok());
  EXPECT_EQ(calls, 0);
}

// Its result would be lost after the work.
TEST_F(Mistakes, FoldersOfResultsThatCannotBeWritten) {
  int calls = 0;
  Estimator estimator =
      Make([&calls](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        ++calls;
        return SmallModelFn(features, labels, mode, {});
      });
  const auto receiver =
      BuildRawServingInputReceiverFn({{.name = "x", .dtype = base::DType::kF32, .shape = {-1, 4}}});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  calls = 0;
  std::ofstream(File("eval")) << "a file";
  std::ofstream(File("export")) << "a file";
  EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()),
              HasSubstr("run/eval"));
  EXPECT_THAT(std::string(estimator.ExportSavedModel(File("export"), receiver).status().message()),
              HasSubstr("run/export"));
  const TrainSpec train = {.input_fn = TrainBatches(), .max_steps = 9};
  EXPECT_THAT(
      std::string(
          TrainAndEvaluate(estimator, train, {.input_fn = TestBatches()}).status().message()),
      HasSubstr("run/eval"));
  EXPECT_THAT(std::string(TrainAndEvaluate(estimator, train,
                                           {.input_fn = TestBatches(),
                                            .name = "other",
                                            .exporters = {FinalExporter("last", receiver)}})
                              .status()
                              .message()),
              HasSubstr("run/export"));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(Step(), 1);
}

TEST_F(Mistakes, OfTPUEstimators) {
  const auto tpu = [&](int num_shards, int64_t batch, Params params = {}) {
    RunConfig config = QuietConfig();
    config.tpu_config.num_shards = num_shards;
    TPUEstimator estimator({.model_fn = SmallModelFn,
                            .model_dir = dir(),
                            .config = config,
                            .params = params,
                            .train_batch_size = batch});
    return std::string(estimator.Train(TrainBatches(), {.steps = 1}).message());
  };
  EXPECT_THAT(tpu(4, 30), HasSubstr("train_batch_size = 30 is not divisible by num_shards = 4"));
  EXPECT_THAT(tpu(0, 32), HasSubstr("num_shards is 0"));
  EXPECT_THAT(tpu(2, 0), HasSubstr("needs train_batch_size for mode 'train'"));
  EXPECT_THAT(tpu(2, 8, {{"batch_size", 8}}), HasSubstr("must not contain 'batch_size'"));
}

TEST_F(Mistakes, TwoTensorsOfOneName) {
  EXPECT_THAT(
      TrainError([](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
        const session::Tensor x = features["x"];
        spec.predictions = NamedTensors({{"a", x}, {"a", x}});
        return spec;
      }),
      HasSubstr("returned prediction 'a' twice; give each a name of its own"));
}

TEST_F(Mistakes, OfSavingListeners) {
  EXPECT_THAT(Make(SmallModelFn)
                  .Train(TrainBatches(), {.steps = 1, .saving_listeners = {nullptr}})
                  .message(),
              HasSubstr("a saving listener must not be null"));
}

TEST_F(Mistakes, OfServingInputReceivers) {
  Estimator estimator = Make(SmallModelFn);
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  const auto error = [&](const ServingInputReceiverFn& receiver,
                         const ExportSavedModelOptions& options = {}) {
    return std::string(
        estimator.ExportSavedModel(File("export"), receiver, options).status().message());
  };
  const auto raw = [](const char* name, const session::Shape& shape) {
    return BuildRawServingInputReceiverFn(
        {{.name = name, .dtype = base::DType::kF32, .shape = shape}});
  };
  EXPECT_THAT(error(raw("length (cm)", {-1, 4})),
              HasSubstr("there is no 'x' among the features of the serving_input_receiver_fn"));
  EXPECT_THAT(error(raw("x", {2, 4})),
              AllOf(HasSubstr("no receiver tensor has an unknown first extent"),
                    HasSubstr("'x' is [2,4]: make it a Placeholder whose first extent is -1")));
  EXPECT_THAT(error(raw("x", {-1, 4}), {.signature = "other"}),
              HasSubstr("export_outputs have no 'other'; they are empty"));
  EXPECT_THAT(error([]() -> ServingInputReceiver {
                return {NamedTensors({{"x", {}}})};
              }),
              HasSubstr("returned an invalid tensor as feature 'x'"));
  EXPECT_THAT(error([]() -> ServingInputReceiver {
                const session::Tensor x = session::Placeholder(base::DType::kF32, {-1, 4});
                return {NamedTensors({{"x", x}}), NamedTensors({{"y", x}, {"y", x}})};
              }),
              HasSubstr("returned receiver tensor 'y' twice"));
}

TEST_F(Mistakes, OfTrainAndEvaluate) {
  Estimator estimator = Make(SmallModelFn);
  EXPECT_THAT(TrainAndEvaluate(estimator, {}, {.input_fn = TestBatches()}).status().message(),
              HasSubstr("TrainSpec has no input_fn"));
  EXPECT_THAT(TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 1},
                               {.input_fn = TestBatches(), .steps = 0})
                  .status()
                  .message(),
              HasSubstr("EvalSpec.steps is 0"));
  class Throws : public Exporter {
   public:
    std::string name() const override { return "x"; }
    absl::StatusOr<std::string> Export(Estimator&, const std::string&, const std::string&,
                                       const EvalResult&, bool) override {
      throw std::runtime_error("no exporter");
    }
  };
  EXPECT_THAT(std::string(TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 1},
                                           {.input_fn = TestBatches(),
                                            .exporters = {std::make_shared<Throws>()}})
                              .status()
                              .message()),
              AllOf(HasSubstr("exporter 'x' at step 1"), HasSubstr("no exporter")));
}

}  // namespace mistakes_test
}  // namespace penstock::estimator
