// Common mistakes and their error messages: what is wrong, where, and how to fix it.
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace mistakes_test {

using base::Array;
using base::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }
Array Zeros(const base::Shape& shape, DType dtype = DType::kF32) {
  return Array::Zeros(dtype, shape);
}

// Error of a model that ends in `y`.
std::string BuildError(const nn::Symbol& x, const nn::Symbol& y) {
  Model model({x}, {y});
  return Message(model.Compile({.loss = "mse", .client = runtime::TestClient(1)}));
}

CompileOptions With(LossesArg loss, std::vector<MetricArg> metrics = {}) {
  return {.loss = std::move(loss), .metrics = std::move(metrics), .client = runtime::TestClient(1)};
}

Model Classifier(const std::string& activation = "softmax") {
  return Sequential({Input({.shape = {4}}), Dense({.units = 3, .activation = activation})});
}

// Error of one epoch of training on arrays.
std::string FitError(Model model, const CompileOptions& options, const Array& x, const Array& y) {
  if (const absl::Status compiled = model.Compile(options); !compiled.ok()) {
    return Message(compiled);
  }
  return Message(model.Fit(x, y, {.verbose = 0}).status());
}

TEST(Mistakes, ImageWithoutChannelAxis) {
  const nn::Symbol x = Input({.shape = {28, 28}});
  EXPECT_THAT(BuildError(x, Conv2D({.filters = 8, .kernel_size = 3, .name = "first"})(x)),
              AllOf(HasSubstr("\"first\""), HasSubstr("mistakes_test.cc"), HasSubstr("channels")));
}

TEST(Mistakes, VectorInputToConvolution) {
  const nn::Symbol x = Input({.shape = {784}});
  EXPECT_THAT(BuildError(x, Conv2D({.filters = 8, .kernel_size = 3})(x)), HasSubstr("f32[2,784]"));
}

TEST(Mistakes, WindowLargerThanImage) {
  const nn::Symbol x = Input({.shape = {4, 4, 1}});
  EXPECT_THAT(BuildError(x, Conv2D({.filters = 8, .kernel_size = 7, .name = "wide"})(x)),
              AllOf(HasSubstr("\"wide\""), HasSubstr("7")));
}

TEST(Mistakes, AddedTensorsOfDifferentShapes) {
  const nn::Symbol x = Input({.shape = {4}});
  EXPECT_THAT(BuildError(x, Add({.name = "sum"})({x, Dense({.units = 3})(x)})),
              AllOf(HasSubstr("\"sum\""), HasSubstr("f32[2,4]"), HasSubstr("f32[2,3]")));
}

TEST(Mistakes, ConcatenatedTensorsOfDifferentShapes) {
  const nn::Symbol x = Input({.shape = {4, 4, 2}});
  const nn::Symbol half = MaxPooling2D({.pool_size = 2})(x);
  EXPECT_THAT(BuildError(x, Concatenate({.name = "join"})({x, half})),
              AllOf(HasSubstr("\"join\""), HasSubstr("[2,4,4,2]"), HasSubstr("[2,2,2,2]")));
}

TEST(Mistakes, UnknownName) {
  const nn::Symbol x = Input({.shape = {4}});
  EXPECT_THAT(BuildError(x, Dense({.units = 2, .activation = "rellu"})(x)),
              AllOf(HasSubstr("unknown activation 'rellu'"), HasSubstr("relu")));
  EXPECT_THAT(BuildError(x, Dense({.units = 2, .kernel_initializer = "xavier"})(x)),
              AllOf(HasSubstr("'xavier'"), HasSubstr("glorot_uniform")));
  EXPECT_THAT(Message(Classifier().Compile(With("crossentropie"))),
              AllOf(HasSubstr("unknown loss 'crossentropie'"), HasSubstr("crossentropy")));
}

TEST(Mistakes, DuplicateLayerName) {
  const nn::Symbol x = Input({.shape = {4}});
  EXPECT_THAT(BuildError(x, Dense({.units = 2, .name = "d"})(Dense({.units = 2, .name = "d"})(x))),
              HasSubstr("two layers are named 'd'"));
}

TEST(Mistakes, InputOfAnotherModel) {
  const nn::Symbol x = Input({.shape = {4}}), other = Input({.shape = {4}, .name = "other"});
  EXPECT_THAT(BuildError(x, Add()({x, other})), HasSubstr("'other' that is not among"));
}

TEST(Mistakes, InputShapeWithBatchOrUnknownAxis) {
  EXPECT_THAT(Message(Input({.shape = {-1, 4}}).type().status()), HasSubstr("without the batch"));
}

TEST(Mistakes, FitBeforeCompile) {
  Model model = Classifier();
  EXPECT_THAT(Message(model.Fit(Zeros({8, 4}), Zeros({8})).status()),
              HasSubstr("call Compile first"));
}

// Compile would destroy the state that Fit uses, and a second Fit would modify it.
TEST(Mistakes, FitAndCompileWhileFitIsRunning) {
  Model model = Classifier();
  const CompileOptions options = With("sparse_categorical_crossentropy");
  ASSERT_TRUE(model.Compile(options).ok());
  const Array x = Zeros({8, 4}), y = Zeros({8}, DType::kI64);
  std::vector<absl::Status> within;
  const auto callback =
      LambdaCallback({.on_epoch_end = [&](train::TrainingContext&, const train::Position&,
                                          const Logs&) -> absl::Status {
        within = {model.Fit(x, y, {.verbose = 0}).status(), model.Compile(options)};
        EXPECT_TRUE(model.Evaluate(x, y).ok());
        return absl::OkStatus();
      }});
  ASSERT_TRUE(model.Fit(x, y, {.epochs = 2, .verbose = 0, .callbacks = {callback}}).ok());
  ASSERT_EQ(within.size(), 2);
  for (const absl::Status& status : within) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr("callback"));
  }
  // Also after a Fit that failed.
  const auto failing =
      LambdaCallback({.on_train_begin = [](train::TrainingContext&) -> absl::Status {
        throw std::runtime_error("a mistake in a callback");
      }});
  EXPECT_FALSE(model.Fit(x, y, {.verbose = 0, .callbacks = {failing}}).ok());
  EXPECT_TRUE(model.Fit(x, y, {.verbose = 0}).ok());
  EXPECT_TRUE(model.Compile(options).ok());
}

TEST(Mistakes, ArraysOfDifferentLengths) {
  EXPECT_THAT(FitError(Classifier(), With("sparse_categorical_crossentropy"), Zeros({8, 4}),
                       Zeros({7}, DType::kI64)),
              AllOf(HasSubstr("as many rows"), HasSubstr("[8,4]"), HasSubstr("[7]")));
}

TEST(Mistakes, DataShapeDiffersFromInput) {
  EXPECT_THAT(FitError(Classifier(), With("sparse_categorical_crossentropy"), Zeros({8, 5}),
                       Zeros({8}, DType::kI64)),
              AllOf(HasSubstr("f32[?,4]"), HasSubstr("f32[8,5]")));
}

TEST(Mistakes, UnbatchedDataset) {
  Model model = Classifier();
  ASSERT_TRUE(model.Compile(With("sparse_categorical_crossentropy")).ok());
  const auto rows =
      data::Dataset::FromArrays({{"x", Zeros({8, 4})}, {"y", Zeros({8}, DType::kI64)}});
  EXPECT_THAT(Message(model.Fit(rows, {.verbose = 0}).status()), HasSubstr("Batch"));
}

TEST(Mistakes, LabelsCountedFromOne) {
  EXPECT_THAT(FitError(Classifier(), With("sparse_categorical_crossentropy"), Zeros({3, 4}),
                       Array::Of<int64_t>({3}, {1, 2, 3})),
              AllOf(HasSubstr("column 'y'"), HasSubstr("3"), HasSubstr("from 1")));
}

TEST(Mistakes, LabelOutOfRange) {
  EXPECT_THAT(FitError(Classifier(), With("sparse_categorical_crossentropy"), Zeros({3, 4}),
                       Array::Of<int64_t>({3}, {0, -1, 2})),
              AllOf(HasSubstr("column 'y'"), HasSubstr("-1")));
}

TEST(Mistakes, OneHotLabelsWithSparseLossAndViceVersa) {
  EXPECT_THAT(
      FitError(Classifier(), With("sparse_categorical_crossentropy"), Zeros({3, 4}), Zeros({3, 3})),
      AllOf(HasSubstr("categorical_crossentropy"), HasSubstr("one-hot")));
  EXPECT_THAT(FitError(Classifier(), With("categorical_crossentropy"), Zeros({3, 4}),
                       Zeros({3}, DType::kI64)),
              HasSubstr("sparse_categorical_crossentropy"));
}

TEST(Mistakes, MissingFlatten) {
  Model model =
      Sequential({Input({.shape = {4, 4, 1}}), Dense({.units = 3, .activation = "softmax"})});
  EXPECT_THAT(FitError(std::move(model), With("sparse_categorical_crossentropy"),
                       Zeros({3, 4, 4, 1}), Zeros({3}, DType::kI64)),
              AllOf(HasSubstr("[3,4,4,3]"), HasSubstr("[3]")));
}

TEST(Mistakes, OneLabelPerExampleForSeveralOutputs) {
  Model model = Sequential({Input({.shape = {4}}), Dense({.units = 3})});
  EXPECT_THAT(FitError(std::move(model), With("mse"), Zeros({3, 4}), Zeros({3})),
              AllOf(HasSubstr("f32[3]"), HasSubstr("f32[3,3]")));
}

TEST(Mistakes, NumberOfLossesDiffersFromOutputs) {
  EXPECT_THAT(Message(Classifier().Compile(With(std::vector<LossArg>{"mse", "mse"}))),
              HasSubstr("1 outputs, loss has 2"));
}

// Notes that a training reports once, while it continues.
class Notes : public Callback {
 public:
  void Note(absl::string_view text) override { notes += std::string(text) + "\n"; }
  std::string notes;
};
std::string NotesOf(const std::string& activation, const nn::Loss& loss) {
  Model model = Classifier(activation);
  const auto notes = std::make_shared<Notes>();
  EXPECT_TRUE(model.Compile(With(loss)).ok());
  const auto history =
      model.Fit(Zeros({4, 4}), Zeros({4}, DType::kI64), {.verbose = 0, .callbacks = {notes}});
  EXPECT_TRUE(history.ok()) << history.status();
  return notes->notes;
}

TEST(Mistakes, MissingAndDuplicateSoftmax) {
  EXPECT_THAT(NotesOf("linear", nn::SparseCategoricalCrossentropy()), HasSubstr("from_logits"));
  EXPECT_THAT(NotesOf("softmax", nn::SparseCategoricalCrossentropy({.from_logits = true})),
              HasSubstr("leave out from_logits"));
  EXPECT_EQ(NotesOf("softmax", nn::SparseCategoricalCrossentropy()), "");
  EXPECT_EQ(NotesOf("linear", nn::SparseCategoricalCrossentropy({.from_logits = true})), "");
}

TEST(Mistakes, LabelOutOfRangeInLaterBatchIsNamedWithNan) {
  Model model = Classifier();
  ASSERT_TRUE(model.Compile(With("sparse_categorical_crossentropy")).ok());
  const auto history =
      model.Fit(Zeros({4, 4}), Array::Of<int64_t>({4}, {0, 1, 2, 7}),
                {.batch_size = 2, .verbose = 0, .callbacks = {TerminateOnNan()}, .shuffle = false});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(history->stop_reason,
              AllOf(HasSubstr("the loss"), HasSubstr("labels"), HasSubstr("7")));
}

TEST(Mistakes, NanInData) {
  Model model = Classifier();
  ASSERT_TRUE(model.Compile(With("sparse_categorical_crossentropy")).ok());
  Array x = Zeros({4, 4}).Clone();
  x.mutable_data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const auto history =
      model.Fit(x, Zeros({4}, DType::kI64), {.verbose = 0, .callbacks = {TerminateOnNan()}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(history->stop_reason, HasSubstr("the input"));
}

TEST(Mistakes, StepsPerEpochWithoutRepeat) {
  Model model = Classifier();
  ASSERT_TRUE(model.Compile(With("sparse_categorical_crossentropy")).ok());
  const auto history = model.Fit(Zeros({4, 4}), Zeros({4}, DType::kI64),
                                 {.epochs = 2, .verbose = 0, .steps_per_epoch = 3});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(history->stop_reason, HasSubstr("add Repeat()"));
}

TEST(Mistakes, WeightsOfAnotherNetwork) {
  Model model = Classifier();
  ASSERT_TRUE(model.Compile(With("mse")).ok());
  EXPECT_THAT(Message(model.SetWeights({{"dense/kernel", Zeros({5, 3})}})), HasSubstr("[4,3]"));
  EXPECT_THAT(Message(model.SetWeights({{"other/kernel", Zeros({4, 3})}})),
              AllOf(HasSubstr("dense/kernel"), HasSubstr("other/kernel")));
}

TEST(Mistakes, LossThatThrows) {
  const nn::Loss loss = nn::CustomLoss(
      "mine", [](ir::Value, ir::Value) -> ir::Value { throw std::runtime_error("no table"); });
  Model model = Classifier();
  ASSERT_TRUE(model.Compile(With(loss)).ok());
  const Array x = Zeros({4, 4}), y = Zeros({4, 3});
  for (const absl::Status& status :
       {model.Evaluate(x, y).status(), model.Fit(x, y, {.verbose = 0}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(Message(status), HasSubstr("no table"));
  }
}

TEST(Mistakes, MetricThatThrows) {
  struct Throws : nn::MetricBody {
    absl::string_view name() const override { return "mine"; }
    nn::MetricDirection direction() const override { return nn::MetricDirection::kUp; }
    std::vector<ir::TensorType> States(const ir::TensorType&) const override { throw 7; }
    ir::Values Update(ir::Value, ir::Value, ir::Value) const override { return {}; }
    ir::Value Result(const ir::Values&) const override { return {}; }
  };
  Model model = Classifier();
  const absl::Status status = model.Compile(With("mse", {nn::Metric(std::make_shared<Throws>())}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
}

// Models that cannot be saved are reported before the training.
TEST(Mistakes, ClassNameThatIsNotUtf8) {
  struct Odd : nn::LayerBody {
    absl::string_view class_name() const override { return "\xff"; }
    void Fields(nn::Config&) override {}
    nn::Outputs Call(nn::CallContext&, const ir::Values& x) const override { return x[0]; }
  };
  Model model = Sequential(
      {Input({.shape = {4}}), CustomLayer(std::make_shared<Odd>()), Dense({.units = 3})});
  ASSERT_TRUE(model.Compile(With("mse")).ok());
  EXPECT_THAT(Message(model.CheckSavable()), HasSubstr("UTF-8"));
  EXPECT_THAT(Message(model.Save(::testing::TempDir() + "/odd.safetensors")), HasSubstr("UTF-8"));
}

}  // namespace mistakes_test
}  // namespace penstock::keras
