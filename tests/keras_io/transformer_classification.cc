#include "programs.h"

namespace penstock::keras_io {
namespace {

// A block of attention and two dense layers, each with a residual connection, as a model used as a
// layer.
keras::Layer TransformerBlock(int64_t steps, int64_t dim, int64_t heads, int64_t ff_dim,
                              double rate) {
  const keras::Symbol inputs = keras::Input({.shape = {steps, dim}});
  keras::Symbol attention =
      keras::MultiHeadAttention({.num_heads = heads, .key_dim = dim})({inputs, inputs});
  attention = keras::Dropout({.rate = rate})(attention);
  const keras::Symbol out1 =
      keras::LayerNormalization({.epsilon = 1e-6})(keras::Add()({inputs, attention}));
  keras::Symbol ffn = keras::Dense({.units = ff_dim, .activation = "relu"})(out1);
  ffn = keras::Dense({.units = dim})(ffn);
  ffn = keras::Dropout({.rate = rate})(ffn);
  const keras::Symbol out2 =
      keras::LayerNormalization({.epsilon = 1e-6})(keras::Add()({out1, ffn}));
  return keras::Model(inputs, out2, "transformer_block").AsLayer();
}

// Written as a subclass of Model, as in Keras.
class TransformerClassifier : public keras::Model {
 public:
  TransformerClassifier(int64_t steps, int64_t vocabulary)
      : tokens_(keras::Embedding({.input_dim = vocabulary, .output_dim = kDim})),
        positions_(keras::PositionEmbedding({.sequence_length = steps})),
        block_(TransformerBlock(steps, kDim, 2, 32, 0.1)),
        dense_(keras::Dense({.units = 20, .activation = keras::activations::Gelu()})),
        classes_(keras::Dense({.units = 2, .activation = "softmax"})) {
    Build(keras::Input({.shape = {steps}, .dtype = DType::kI64}), "classifier");
  }
  keras::SymbolsArg Call(const std::vector<keras::Symbol>& inputs) override {
    keras::Symbol x = tokens_(inputs[0]);
    x = block_(keras::Add()({x, positions_(x)}));
    x = keras::GlobalMaxPooling1D()(x);
    x = keras::Dropout({.rate = 0.1})(x);
    return classes_(dense_(x));
  }

 private:
  static constexpr int64_t kDim = 16;
  keras::Layer tokens_, positions_, block_, dense_, classes_;
};

}  // namespace

absl::StatusOr<double> TransformerClassification() {
  constexpr int64_t kSteps = 16, kVocabulary = 60;
  const LabelledRows train = TokenSequences(400, kSteps, kVocabulary, 1);
  const LabelledRows test = TokenSequences(100, kSteps, kVocabulary, 2);
  TransformerClassifier model(kSteps, kVocabulary);
  PENSTOCK_RETURN_IF_ERROR(model.Compile({.optimizer = keras::Adam({.learning_rate = 5e-3}),
                                          .loss = "sparse_categorical_crossentropy",
                                          .metrics = {"accuracy"}}));
  PENSTOCK_RETURN_IF_ERROR(
      model.Fit(train.x, train.y, {.batch_size = 32, .epochs = 8, .verbose = 0}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs score, model.Evaluate(test.x, test.y));
  return score.Get("accuracy");
}

}  // namespace penstock::keras_io
