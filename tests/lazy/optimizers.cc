#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

template <typename O, typename Options>
MakeOptimizer Make(Options options) {
  return [options](const Ts& p) { return std::make_unique<O>(p, options); };
}
// The first parameter in a group of its own.
template <typename O, typename Options>
MakeOptimizer Groups(optim::ParamGroup first, optim::ParamGroup rest, Options options) {
  return [=](const Ts& p) {
    optim::ParamGroups groups{first, rest};
    groups[0].params = {p[0]};
    groups[1].params = Ts(p.begin() + 1, p.end());
    return std::make_unique<O>(groups, options);
  };
}

}  // namespace

std::vector<std::pair<std::string, MakeOptimizer>> OptimizerRows() {
  using optim::AdadeltaOptions, optim::AdagradOptions, optim::AdamaxOptions, optim::AdamOptions,
      optim::AdamWOptions, optim::NAdamOptions, optim::RAdamOptions, optim::RMSpropOptions,
      optim::SGDOptions;
  return {
      {"SGD", Make<optim::SGD>(SGDOptions{.lr = 0.1})},
      {"SGD momentum", Make<optim::SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9})},
      {"SGD nesterov", Make<optim::SGD>(SGDOptions{.lr = 0.05, .momentum = 0.8, .nesterov = true})},
      {"SGD dampening",
       Make<optim::SGD>(SGDOptions{.lr = 0.05, .momentum = 0.8, .dampening = 0.3})},
      {"SGD weight_decay",
       Make<optim::SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01})},
      {"SGD maximize",
       Make<optim::SGD>(SGDOptions{.lr = 0.1, .weight_decay = 0.1, .maximize = true})},
      {"SGD nesterov and decay",
       Make<optim::SGD>(
           SGDOptions{.lr = 0.1, .momentum = 0.5, .weight_decay = 0.1, .nesterov = true})},
      {"SGD groups", Groups<optim::SGD>({.lr = 0.3}, {.weight_decay = 0.1, .momentum = 0.5},
                                        SGDOptions{.lr = 0.1})},
      {"Adam", Make<optim::Adam>(AdamOptions{})},
      {"Adam lr", Make<optim::Adam>(AdamOptions{.lr = 0.1})},
      {"Adam betas", Make<optim::Adam>(AdamOptions{.lr = 0.05, .betas = {0.8, 0.9}})},
      {"Adam eps", Make<optim::Adam>(AdamOptions{.lr = 0.05, .eps = 0.1})},
      {"Adam weight_decay", Make<optim::Adam>(AdamOptions{.lr = 0.05, .weight_decay = 0.1})},
      {"Adam amsgrad", Make<optim::Adam>(AdamOptions{.lr = 0.05, .amsgrad = true})},
      {"Adam maximize",
       Make<optim::Adam>(AdamOptions{.lr = 0.05, .weight_decay = 0.1, .maximize = true})},
      {"Adam without first moment", Make<optim::Adam>(AdamOptions{.lr = 0.05, .betas = {0, 0.99}})},
      {"Adam groups", Groups<optim::Adam>({.lr = 0.1, .options = {{"beta1", 0.5}, {"beta2", 0.9}}},
                                          {}, AdamOptions{.lr = 0.01})},
      {"AdamW", Make<optim::AdamW>(AdamWOptions{})},
      {"AdamW lr", Make<optim::AdamW>(AdamWOptions{.lr = 0.1})},
      {"AdamW weight_decay", Make<optim::AdamW>(AdamWOptions{.lr = 0.05, .weight_decay = 0.3})},
      {"AdamW amsgrad", Make<optim::AdamW>(AdamWOptions{.lr = 0.05, .eps = 1e-3, .amsgrad = true})},
      {"AdamW maximize", Make<optim::AdamW>(AdamWOptions{.lr = 0.05, .maximize = true})},
      {"AdamW groups", Groups<optim::AdamW>({.weight_decay = 0}, {}, AdamWOptions{.lr = 0.05})},
      {"Adamax", Make<optim::Adamax>(AdamaxOptions{})},
      {"Adamax betas", Make<optim::Adamax>(AdamaxOptions{.lr = 0.1, .betas = {0.7, 0.8}})},
      {"Adamax weight_decay",
       Make<optim::Adamax>(AdamaxOptions{.lr = 0.1, .weight_decay = 0.1, .maximize = true})},
      {"NAdam", Make<optim::NAdam>(NAdamOptions{})},
      {"NAdam options",
       Make<optim::NAdam>(NAdamOptions{
           .lr = 0.05, .betas = {0.8, 0.95}, .weight_decay = 0.1, .momentum_decay = 0.01})},
      {"RAdam", Make<optim::RAdam>(RAdamOptions{})},
      {"RAdam options",
       Make<optim::RAdam>(RAdamOptions{.lr = 0.05, .betas = {0.8, 0.9}, .weight_decay = 0.1})},
      {"Adagrad", Make<optim::Adagrad>(AdagradOptions{})},
      {"Adagrad lr_decay", Make<optim::Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.1})},
      {"Adagrad initial", Make<optim::Adagrad>(AdagradOptions{
                              .lr = 0.1, .initial_accumulator_value = 0.5, .eps = 1e-3})},
      {"Adagrad weight_decay",
       Make<optim::Adagrad>(AdagradOptions{.lr = 0.1, .weight_decay = 0.1, .maximize = true})},
      {"Adadelta", Make<optim::Adadelta>(AdadeltaOptions{})},
      {"Adadelta options", Make<optim::Adadelta>(AdadeltaOptions{
                               .lr = 0.5, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1})},
      {"RMSprop", Make<optim::RMSprop>(RMSpropOptions{})},
      {"RMSprop alpha",
       Make<optim::RMSprop>(RMSpropOptions{.lr = 0.05, .alpha = 0.9, .eps = 1e-4})},
      {"RMSprop momentum", Make<optim::RMSprop>(RMSpropOptions{.lr = 0.05, .momentum = 0.9})},
      {"RMSprop centered", Make<optim::RMSprop>(RMSpropOptions{
                               .lr = 0.05, .alpha = 0.8, .eps = 1e-2, .centered = true})},
      {"RMSprop all",
       Make<optim::RMSprop>(RMSpropOptions{
           .lr = 0.02, .eps = 1e-2, .weight_decay = 0.1, .momentum = 0.5, .centered = true})},
      {"RMSprop maximize", Make<optim::RMSprop>(RMSpropOptions{.lr = 0.05, .maximize = true})},
  };
}

}  // namespace penstock::tests::lazy_rows
