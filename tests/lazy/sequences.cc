#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

template <typename Make>
Program Recurrent(Make make) {
  return [make](Case& c) {
    const auto m = c.Load(make());
    const nn::RecurrentOutput y = c.x.size() == 1   ? m(c.x[0])
                                  : c.x.size() == 2 ? m(c.x[0], c.x[1])
                                                    : m(c.x[0], c.x[1], c.x[2]);
    Ts results{y.output, y.h_n};
    if (y.c_n.defined()) results.push_back(y.c_n);
    return results;
  };
}

template <typename Make>
Program Cell(Make make) {
  return [make](Case& c) {
    const auto m = c.Load(make());
    return Ts{c.x.size() == 1 ? m(c.x[0]) : m(c.x[0], c.x[1])};
  };
}

// True above the diagonal.
T CausalMask() { return torch::triu(torch::ones({5, 5}), 1) > 0; }
// The last two of five positions of the second example.
T PaddingMask() {
  const T last = torch::arange(5) >= 3, second = torch::arange(2) > 0;
  return second.unsqueeze(1) & last.unsqueeze(0);
}

constexpr auto kLayer = [] {
  return nn::TransformerLayerOptions{.dim_feedforward = 12, .dropout = 0};
};

Ts PlainAttention(Case& c) {
  const auto m = c.Load(nn::MultiheadAttention(8, 2));
  const nn::AttentionOutput y = m(c.x[0], c.x[1], c.x[2]);
  return {y.output, y.weights};
}

Ts MaskedAttention(Case& c) {
  const auto m = c.Load(nn::MultiheadAttention(8, 4, {.bias = false, .batch_first = true}));
  const nn::AttentionOutput y = m(c.x[0], c.x[1], c.x[2],
                                  {.key_padding_mask = PaddingMask(),
                                   .attn_mask = CausalMask(),
                                   .average_attn_weights = false});
  return {y.output, y.weights};
}

}  // namespace

Table SequenceRows() {
  return {
      {"RNN", Recurrent([] { return nn::RNN(3, 4); })},
      {"RNN relu", Recurrent([] { return nn::RNN(3, 4, {.bias = false}, "relu"); })},
      {"LSTM", Recurrent([] { return nn::LSTM(3, 4); })},
      {"LSTM with states", Recurrent([] { return nn::LSTM(3, 4); })},
      {"LSTM of two layers in both directions", Recurrent([] {
         return nn::LSTM(3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true});
       })},
      {"LSTM without a batch", Recurrent([] { return nn::LSTM(3, 4); })},
      {"GRU", Recurrent([] { return nn::GRU(3, 4); })},
      {"GRU in both directions",
       Recurrent([] { return nn::GRU(3, 4, {.num_layers = 2, .bidirectional = true}); })},
      {"MultiheadAttention", PlainAttention},
      {"MultiheadAttention with masks", MaskedAttention},
      {"TransformerEncoderLayer",
       [](Case& c) { return Ts{c.Load(nn::TransformerEncoderLayer(8, 2, kLayer()))(c.x[0])}; }},
      {"TransformerEncoderLayer norm_first",
       [](Case& c) {
         nn::TransformerLayerOptions options = kLayer();
         options.activation = "gelu";
         options.batch_first = options.norm_first = true;
         return Ts{c.Load(nn::TransformerEncoderLayer(8, 2, options))(c.x[0], CausalMask(),
                                                                      PaddingMask())};
       }},
      {"TransformerEncoder",
       [](Case& c) {
         return Ts{c.Load(nn::TransformerEncoder(nn::TransformerEncoderLayer(8, 2, kLayer()), 2,
                                                 nn::LayerNorm(8)))(c.x[0])};
       }},
      {"TransformerDecoderLayer",
       [](Case& c) {
         return Ts{c.Load(nn::TransformerDecoderLayer(8, 2, kLayer()))(
             c.x[0], c.x[1], nn::DecoderMasks{.tgt_mask = CausalMask()})};
       }},
      {"TransformerDecoderLayer norm_first",
       [](Case& c) {
         nn::TransformerLayerOptions options = kLayer();
         options.batch_first = options.norm_first = true;
         return Ts{c.Load(nn::TransformerDecoderLayer(8, 2, options))(c.x[0], c.x[1])};
       }},
      {"TransformerDecoder",
       [](Case& c) {
         return Ts{c.Load(nn::TransformerDecoder(nn::TransformerDecoderLayer(8, 2, kLayer()), 2))(
             c.x[0], c.x[1])};
       }},
      {"RNNCell", Cell([] { return nn::RNNCell(3, 4); })},
      {"RNNCell relu", Cell([] { return nn::RNNCell(3, 4, {.bias = false}, "relu"); })},
      {"GRUCell", Cell([] { return nn::GRUCell(3, 4); })},
      {"LSTMCell",
       [](Case& c) {
         const auto m = c.Load(nn::LSTMCell(3, 4));
         const auto [h, state] = m(c.x[0], c.x[1], c.x[2]);
         return Ts{h, state};
       }},
      {"LSTMCell without a batch",
       [](Case& c) {
         const auto [h, state] = c.Load(nn::LSTMCell(3, 4))(c.x[0]);
         return Ts{h, state};
       }},
      {"Transformer",
       [](Case& c) {
         const auto m = c.Load(nn::Transformer(8, 2,
                                               {.num_encoder_layers = 2,
                                                .num_decoder_layers = 2,
                                                .dim_feedforward = 12,
                                                .dropout = 0}));
         return Ts{m(c.x[0], c.x[1],
                     nn::TransformerMasks{
                         .tgt_mask = nn::TransformerImpl::generate_square_subsequent_mask(5)})};
       }},
  };
}

}  // namespace penstock::tests::lazy_rows
