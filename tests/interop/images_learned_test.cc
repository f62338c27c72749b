// Trains networks of room models on small real data sets, iris and scikit-learn's handwritten
// digits, and compares with known accuracies.
#include "gtest/gtest.h"

#include "penstock/keras/keras.h"
#include "penstock/models/models.h"

#include "tests/interop/small_data.h"

namespace penstock::tests::images_learned_test {
namespace {

using base::DType;

struct Training {
  keras::OptimizerArg optimizer;
  int64_t batch_size = 32;
  int epochs = 10;
};

// Accuracy on the held-out examples.
absl::StatusOr<double> Accuracy(const nn::Network& network, const TrainAndTest& examples,
                                const Training& training) {
  keras::Model model(network);
  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = training.optimizer,
                     .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                     .metrics = {"accuracy"},
                     .seed = 1}));
  const auto& [train, test] = examples;
  PENSTOCK_RETURN_IF_ERROR(
      model
          .Fit(train.x, train.y,
               {.batch_size = training.batch_size, .epochs = training.epochs, .verbose = 0})
          .status());
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs logs,
                            model.Evaluate(test.x, test.y, {.batch_size = test.x.dim(0)}));
  return *logs.Find("accuracy");
}

void ExpectLearned(const nn::Network& network, const absl::StatusOr<TrainAndTest>& examples,
                   const Training& training, double at_least) {
  ASSERT_TRUE(examples.ok()) << examples.status();
  const auto accuracy = Accuracy(network, *examples, training);
  ASSERT_TRUE(accuracy.ok()) << accuracy.status();
  ::testing::Test::RecordProperty("accuracy", std::to_string(*accuracy));
  EXPECT_GE(*accuracy, at_least);
}

// Two of the three species overlap: one or two of the thirty examples are misclassified.
TEST(Iris, ASmallMlpTellsTheSpeciesApart) {
  ExpectLearned(models::Mlp({.hidden = {16}, .classes = 3, .activation = "tanh"}), Iris(),
                {.optimizer = keras::Adam({.learning_rate = 0.02}), .batch_size = 16, .epochs = 60},
                0.93);
}

TEST(Digits, AnMlp) {
  ExpectLearned(
      models::Mlp({.input_shape = {8, 8, 1}, .input_dtype = DType::kU8, .rescale = 1 / 16.0}),
      Digits(), {.optimizer = keras::Adam({.learning_rate = 0.005}), .epochs = 12}, 0.95);
}

TEST(Digits, AResNet) {
  ExpectLearned(
      models::ResNetCifar(
          {.depth = 20, .input_shape = {8, 8, 1}, .input_dtype = DType::kU8, .rescale = 1 / 16.0}),
      Digits(),
      {.optimizer = keras::SGD(
           {.learning_rate = keras::CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 450}),
            .momentum = 0.9}),
       .epochs = 10},
      0.97);
}

// Trains `network` on digits scaled to 32x32 pixels, the minimum size of ImageNet networks.
nn::Network OverDigits(const nn::Network& network) {
  const nn::Symbol image = keras::Input({.shape = {8, 8, 1}, .dtype = DType::kU8, .name = "image"});
  nn::Symbol x = keras::Rescaling({.scale = 1 / 8.0, .offset = -1})(image);
  x = keras::UpSampling2D({.size = 4, .interpolation = "bilinear"})(x);
  x = nn::Nested(network)(x);
  if (x.type().ok() && x.type()->shape.rank() == 4) {
    x = keras::Dense({.units = 10})(keras::GlobalAveragePooling2D()(x));
  }
  return nn::Network({image}, {x});
}

TEST(Digits, AMobileNet) {
  ExpectLearned(
      OverDigits(models::MobileNetV2(
          {.input_shape = {32, 32, 1}, .classes = 10, .momentum = 0.9, .alpha = 0.35})),
      Digits(),
      {.optimizer = keras::Adam({.learning_rate = keras::CosineDecay(
                                     {.initial_learning_rate = 0.005, .decay_steps = 450})}),
       .epochs = 10},
      0.95);
}

TEST(Digits, AVisionTransformer) {
  ExpectLearned(
      models::VisionTransformer({.input_shape = {8, 8, 1},
                                 .input_dtype = DType::kU8,
                                 .patch_size = 2,
                                 .dim = 48,
                                 .depth = 2,
                                 .heads = 4,
                                 .mlp_dim = 96,
                                 .rescale = 1 / 8.0,
                                 .offset = -1}),
      Digits(),
      {.optimizer = keras::AdamW({.learning_rate = keras::CosineDecay(
                                      {.initial_learning_rate = 0.003, .decay_steps = 900}),
                                  .weight_decay = 0.05}),
       .epochs = 20},
      0.95);
}

}  // namespace
}  // namespace penstock::tests::images_learned_test
